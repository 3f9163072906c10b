"""Artifact: one locked file, by content. Pure."""

import re
from dataclasses import dataclass
from typing import Final

COMMIT: Final = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class Checkout:
    """Files of a git repository: ``paths`` (all when empty) at a tag, and the ``commit`` that the tag was resolved to.

    ``pin`` is the tag, or the commit itself; with ``moving`` a branch or a tag, ``HEAD`` the repository's own branch.
    ``submodules`` are the paths of those that are in the tree.
    """

    url: str
    pin: str
    paths: tuple[str, ...] = ()
    commit: str = ""
    submodules: tuple[str, ...] = ()
    moving: bool = False

    @property
    def what(self) -> str:
        """The pin with its kind."""
        if COMMIT.fullmatch(self.pin):
            return f"the commit {self.pin}"
        return f"the {'branch' if self.moving else 'tag'} {self.pin}"

    @property
    def ref(self) -> str:
        """The form that is sent to a server."""
        return self.pin if self.moving or COMMIT.fullmatch(self.pin) else f"refs/tags/{self.pin}"


@dataclass(frozen=True, slots=True)
class Artifact:
    """What a file must be, not where it lies; ``size`` in bytes.

    ``checkout``: what it is made of, where no index has it. ``index``: the URL of the only index it may come from; when
    empty, the user's indexes.
    """

    filename: str
    sha256: str
    size: int
    checkout: Checkout | None = None
    index: str = ""
