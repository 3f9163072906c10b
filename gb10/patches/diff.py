"""A patch's text as values: which files it touches, and every hunk's old and new lines. Pure.

Refused before anything is applied: paths that leave the tree, binary hunks, mode changes, renames.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final, Literal

from gb10.errors import PatchError

MOST_BYTES: Final = 8 << 20
HUNK: Final = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
REFUSED: Final = {
    b"GIT binary patch": "a binary hunk",
    b"Binary files ": "a binary hunk",
    b"old mode ": "a change of a file's mode",
    b"rename from ": "a rename",
    b"copy from ": "a copy",
}
PLAIN_MODES: Final = (b"100644", b"0644")
NOTHING: Final = "/dev/null"
Kind = Literal["change", "add", "delete"]


@dataclass(frozen=True, slots=True)
class Hunk:
    """Lines to find and lines to put there, line ends included; ``line`` is where they stood, counted from 1."""

    line: int
    old: tuple[bytes, ...]
    new: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class FileDiff:
    """What a patch does to one file; ``path`` is relative to the source's root."""

    path: str
    kind: Kind
    hunks: tuple[Hunk, ...]

    def reversed(self) -> "FileDiff":
        """The diff that takes this one back."""
        kind: Kind = "delete" if self.kind == "add" else "add" if self.kind == "delete" else "change"
        return FileDiff(self.path, kind, tuple(Hunk(hunk.line, hunk.new, hunk.old) for hunk in self.hunks))


def check_size(size: int, name: str) -> None:
    """Raise PatchError for a patch that no person reads: over MOST_BYTES."""
    if size > MOST_BYTES:
        raise PatchError(f"{name} is {size / 1e6:.0f} MB: a patch may have {MOST_BYTES / 1e6:.0f} MB", where=name)


def parse_diff(text: bytes, name: str) -> tuple[FileDiff, ...]:
    """Every file of a diff, in its order; raises PatchError with ``name`` and the line."""
    check_size(len(text), name)
    diffs = tuple(_Parser(text, name).files())
    if not diffs:
        raise PatchError(f"{name} changes nothing", where=name, hint="a patch is a diff in git's format")
    paths = [diff.path for diff in diffs]
    twice = next((path for path in paths if paths.count(path) > 1), None)
    if twice:
        raise PatchError(f"{name} changes {twice} twice", where=name, hint="join its hunks under one file header")
    return diffs


def split(content: bytes) -> list[bytes]:
    """Lines with their ends; only a newline ends a line."""
    parts = content.split(b"\n")
    return [part + b"\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


class _Parser:
    """One pass over the lines of a diff."""

    def __init__(self, text: bytes, name: str) -> None:
        self.lines = split(text)
        self.name = name
        self.at = 0

    def error(self, message: str, hint: str | None = None) -> PatchError:
        return PatchError(f"{self.name}: {message}", where=f"{self.name}:{self.at + 1}", hint=hint)

    def files(self) -> Iterator[FileDiff]:
        """The files, from their headers on; text between them (a mail's header, git's index lines) is passed over."""
        while self.at < len(self.lines):
            line = self.lines[self.at]
            self._refuse(line)
            if line.startswith(b"--- ") and self._next().startswith(b"+++ "):
                yield self._file()
            else:
                self.at += 1

    def _next(self) -> bytes:
        return self.lines[self.at + 1] if self.at + 1 < len(self.lines) else b""

    def _refuse(self, line: bytes) -> None:
        for start, what in REFUSED.items():
            if line.startswith(start):
                raise self.error(f"it holds {what}", "a patch may only change, add and delete lines of text")
        if line.startswith(b"new file mode ") and line.split()[-1] not in PLAIN_MODES:
            raise self.error("it makes a file that is not a plain one (mode 100644)")

    def _file(self) -> FileDiff:
        old, new = self._path(self.lines[self.at]), self._path(self._next())
        if old != NOTHING and new not in (NOTHING, old):
            raise self.error(f"it turns {old} into {new}", "a patch keeps the names of files")
        self.at += 2
        hunks = []
        while self.at < len(self.lines) and self.lines[self.at].startswith(b"@@ "):
            hunks.append(self._hunk())
        if not hunks:
            raise self.error("a file without a hunk")
        kind: Kind = "add" if old == NOTHING else "delete" if new == NOTHING else "change"
        return FileDiff(new if kind != "delete" else old, kind, tuple(hunks))

    def _path(self, line: bytes) -> str:
        text = line[4:].rstrip(b"\r\n").split(b"\t")[0].decode("utf-8", "surrogateescape")
        if text == NOTHING:
            return text
        path = PurePosixPath(text)
        if text.startswith('"') or path.is_absolute() or ".." in path.parts or len(path.parts) < 2:
            raise self.error(f"the path {text} is not one below the source's root", "paths start with a/ or b/")
        return "/".join(path.parts[1:])

    def _hunk(self) -> Hunk:
        head = HUNK.match(self.lines[self.at])
        if not head:
            raise self.error("a hunk's header is damaged")
        old_left, new_left = int(head[2] or 1), int(head[4] or 1)
        old: list[bytes] = []
        new: list[bytes] = []
        self.at += 1
        while old_left or new_left or self._is_note():
            line = self.lines[self.at] if self.at < len(self.lines) else b""
            sides = self._sides(line)
            for side in sides:
                (old if side == "old" else new).append(line[1:] if line[1:] else b"\n")
            old_left -= "old" in sides
            new_left -= "new" in sides
            if min(old_left, new_left) < 0:
                raise self.error("a hunk is longer than its header says")
            if not sides:
                self._cut(old, new)
            self.at += 1
        return Hunk(int(head[1]), tuple(old), tuple(new))

    def _is_note(self) -> bool:
        return self.at < len(self.lines) and self.lines[self.at].startswith(b"\\ ")

    def _sides(self, line: bytes) -> tuple[str, ...]:
        """Which texts a line belongs to; none for git's note that the line before it has no end."""
        sides = {b" ": ("old", "new"), b"-": ("old",), b"+": ("new",), b"\n": ("old", "new"), b"\\": ()}
        if line[:1] not in sides:
            raise self.error("a hunk ends before its header says" if not line else "a line of a hunk has no sign")
        return sides[line[:1]]

    def _cut(self, old: list[bytes], new: list[bytes]) -> None:
        before = self.lines[self.at - 1][:1]
        for side in [old] if before == b"-" else [new] if before == b"+" else [old, new]:
            side[-1] = side[-1].removesuffix(b"\n")
