"""The checks of a wheel or an image, one module each; ``CHECK`` is found by listing this folder."""
