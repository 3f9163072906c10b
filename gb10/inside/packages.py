"""Which package a file of an image belongs to, by its path."""

import re

PYTHON = re.compile(r"(?:.*/)?lib/python3(?:\.\d+)?/(?:site|dist)-packages/(?P<inside>.+)")
SHARED = ("nvidia",)
"""Folders that several distributions share: the package is what lies below."""


def package_of(path: str) -> str:
    """``torch``, ``nvidia/cudnn``, ``usr/lib``: a Python package, or the first two folders."""
    match = PYTHON.fullmatch(path)
    parts = match["inside"].split("/") if match else path.split("/")[:-1]
    depth = 2 if not match or (parts[0] in SHARED and len(parts) > 2) else 1
    return "/".join(parts[:depth]).removesuffix(".libs") or "/"
