"""gb10: proven container images for NVIDIA GB10, built from a lock."""

__version__ = "0.3.0"
