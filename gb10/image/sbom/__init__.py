"""What an image is made of, as documents: an SBOM, the provenance, the verification. Pure."""
