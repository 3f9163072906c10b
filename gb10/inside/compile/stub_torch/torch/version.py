"""torch.version: no CUDA of its own, nvcc tells which."""

cuda: str | None = None
