"""Benchmark programs: compiled like the wheels, checked and timed on a GPU."""
