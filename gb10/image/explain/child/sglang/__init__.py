"""SGLang: the kernels that it chooses, and its rehearsal."""
