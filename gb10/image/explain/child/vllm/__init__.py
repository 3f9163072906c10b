"""vLLM: the kernels that it chooses, and its rehearsal."""
