"""Artifact: one locked file, by content. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Artifact:
    """What a file must be, not where it lies; ``size`` in bytes."""

    filename: str
    sha256: str
    size: int
