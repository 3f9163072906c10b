"""A patch as values: which files it changes, and every hunk's old and new lines. Pure."""

from dataclasses import dataclass
from typing import Final, Literal

from gb10.errors import PatchError

MOST_BYTES: Final = 8 << 20
Kind = Literal["change", "add", "delete"]


@dataclass(frozen=True, slots=True)
class Hunk:
    """Lines to find and lines to put there, line ends included.

    ``line`` and ``new_line`` are where they stood and should stand, from 1 (0: in an empty file); ``at_end`` says
    that no line of context follows the last change: then the file ended there.
    """

    line: int
    new_line: int
    old: tuple[bytes, ...]
    new: tuple[bytes, ...]
    at_end: bool

    def reversed(self) -> "Hunk":
        """The hunk that takes this one back."""
        return Hunk(self.new_line, self.line, self.new, self.old, self.at_end)


@dataclass(frozen=True, slots=True)
class FileDiff:
    """What a patch does to one file; ``path`` is relative to the source's root. An empty file has no hunks."""

    path: str
    kind: Kind
    hunks: tuple[Hunk, ...]

    def reversed(self) -> "FileDiff":
        """The diff that takes this one back."""
        kind: Kind = "delete" if self.kind == "add" else "add" if self.kind == "delete" else "change"
        return FileDiff(self.path, kind, tuple(hunk.reversed() for hunk in self.hunks))


def check_size(size: int, name: str) -> None:
    """Raise PatchError for a patch that no person reads: over MOST_BYTES."""
    if size > MOST_BYTES:
        raise PatchError(f"{name} is {size / 1e6:.0f} MB: a patch may have {MOST_BYTES / 1e6:.0f} MB", where=name)


def split(content: bytes) -> list[bytes]:
    """Lines with their ends; only a newline ends a line."""
    parts = content.split(b"\n")
    return [part + b"\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])
