"""A model by its files becomes a model recipe: each choice with its reason. Pure."""
