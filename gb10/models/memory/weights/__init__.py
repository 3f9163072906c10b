"""Bytes of weights: from a model's config and its quantization, or from the headers of its files. Pure."""
