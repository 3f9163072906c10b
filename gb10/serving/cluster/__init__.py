"""Several machines as one: what each says of itself, which network joins them, and what NCCL must know of it."""
