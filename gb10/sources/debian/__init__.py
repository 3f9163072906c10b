"""Debian's archive: which mirror, which packages, and their files by hash."""
