"""Runs in a process of its own, with limits, over functions cut out of an engine's files: the standard library only."""
