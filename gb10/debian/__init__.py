"""Debian bases: resolve packages with apt's signatures, fetch them by hash, unpack them into one root file system."""
