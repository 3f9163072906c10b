"""Servers launched and measured in turn: compared, run through a matrix, repeated elsewhere."""
