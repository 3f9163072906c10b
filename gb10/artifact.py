"""Artifact: one locked file, by content. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Checkout:
    """Files of a git repository: ``paths`` (all when empty) at a tag, which stands for ``commit`` once it was asked."""

    url: str
    tag: str
    paths: tuple[str, ...] = ()
    commit: str = ""


@dataclass(frozen=True, slots=True)
class Artifact:
    """What a file must be, not where it lies; ``size`` in bytes.

    ``checkout``: what it is made of, where no index has it. ``index``: the URL of the only index that is asked for it;
    the user's own are when it is empty.
    """

    filename: str
    sha256: str
    size: int
    checkout: Checkout | None = None
    index: str = ""
