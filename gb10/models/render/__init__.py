"""A model recipe becomes what each node runs: as eugr's launcher does it, as sparkrun does it, or as gb10 does."""
