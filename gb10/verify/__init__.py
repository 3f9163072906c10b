"""Verify: a result is what it claims to be, read out of its bytes, or it is not tagged."""
