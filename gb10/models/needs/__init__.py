"""A model recipe becomes what its image must hold: an engine and its release, layers, mods, pull requests."""
