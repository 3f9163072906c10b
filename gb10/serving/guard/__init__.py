"""Judges what a model streams: every character, from the first one, without knowing the model."""
