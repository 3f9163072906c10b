"""Build what a plan misses: fetch, compile, assemble, export; only missing steps run."""
