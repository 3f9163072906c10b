"""What each engine makes of its memory: the pool for the cache, what is beside it, and when it does not start. Pure."""
