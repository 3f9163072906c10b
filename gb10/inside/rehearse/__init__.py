"""Rehearsals: an engine serves a model without a GPU, and the kernels that it compiles become a layer."""
