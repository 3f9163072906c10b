"""Patches: series of git-format diffs with a probe each, held against releases without unpacking or running them."""
