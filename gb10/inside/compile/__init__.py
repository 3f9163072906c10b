"""Compile stages: kernels, libraries and wheels, within the cores and the memory of the builder."""
