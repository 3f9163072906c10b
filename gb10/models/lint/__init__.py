"""Lint of model recipes: what the field has learnt, as rules, and the engine's own options. Reads only data files."""
