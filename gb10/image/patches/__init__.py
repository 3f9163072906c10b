"""Patches: series of git-format diffs with a probe each, checked against releases and applied strictly."""
