"""Which kernel serves which layer: the engine's own selection code, run over a model's config without a GPU."""
