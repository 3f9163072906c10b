"""b12x: the kernels of CuTe DSL that it looks up, compiled by its own workers."""
