"""Tuned files for Triton kernels: judged by the engine's own look-up, seeded from its defaults, tuned on a Spark."""
