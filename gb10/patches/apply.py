"""Strict application of one file's hunks: every line equal, one place only; never fuzz. Pure.

As ``git apply``, a hunk may stand elsewhere than its header says; unlike it, not when several places would do.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gb10.patches.diff import FileDiff, Hunk, split


@dataclass(frozen=True, kw_only=True, slots=True)
class Conflict:
    """Why a diff does not fit: file, line (from 1; 0 for the whole file), what was expected and what is there."""

    path: str
    line: int
    why: str
    expected: str = ""
    found: str = ""

    def __str__(self) -> str:
        text = f"{self.path}:{self.line}: {self.why}" if self.line else f"{self.path}: {self.why}"
        return f"{text}\n  expected {self.expected!r}\n  found    {self.found!r}" if self.expected else text


class ConflictError(Exception):
    """A diff does not fit its file; caught where the outcome of a patch is decided."""

    def __init__(self, conflict: Conflict) -> None:
        super().__init__(str(conflict))
        self.conflict = conflict


@dataclass(frozen=True, slots=True)
class Applied:
    """A file's new content (None: it is gone), and by how many lines each hunk had moved."""

    content: bytes | None
    offsets: tuple[int, ...]


def apply_diff(diff: FileDiff, content: bytes | None) -> Applied:
    """The file after the diff; ``content`` is None when there is no such file. Raises ConflictError."""
    if diff.kind == "add":
        if content is not None:
            raise ConflictError(Conflict(path=diff.path, line=0, why="the file to add is already there"))
        return Applied(b"".join(line for hunk in diff.hunks for line in hunk.new), ())
    if content is None:
        raise ConflictError(Conflict(path=diff.path, line=0, why="there is no such file"))
    lines = split(content)
    offsets, end = [], 0
    shift = 0
    for hunk in diff.hunks:
        place = _place(diff.path, lines, hunk, hunk.line - 1 + shift, end)
        offsets.append(place - (hunk.line - 1 + shift))
        lines[place : place + len(hunk.old)] = hunk.new
        end = place + len(hunk.new)
        shift = place + len(hunk.new) - len(hunk.old) - (hunk.line - 1)
    if diff.kind == "delete" and lines:
        raise ConflictError(Conflict(path=diff.path, line=1, why="the file to delete holds more than the patch knows"))
    return Applied(b"".join(lines) if diff.kind == "change" else None, tuple(offsets))


def places(lines: Sequence[bytes], wanted: Sequence[bytes], start: int = 0) -> list[int]:
    """Every index from ``start`` at which the wanted lines stand."""
    last = len(lines) - len(wanted)
    return [at for at in range(start, last + 1) if tuple(lines[at : at + len(wanted)]) == tuple(wanted)]


def _place(path: str, lines: Sequence[bytes], hunk: Hunk, expected: int, start: int) -> int:
    found = places(lines, hunk.old, start)
    if expected in found:
        return expected
    if len(found) == 1:
        return found[0]
    if found:
        at = ", ".join(str(place + 1) for place in found[:4])
        raise ConflictError(Conflict(path=path, line=found[0] + 1, why=f"the context stands in several places: {at}"))
    raise ConflictError(_mismatch(path, lines, hunk, expected, start))


def _mismatch(path: str, lines: Sequence[bytes], hunk: Hunk, expected: int, start: int) -> Conflict:
    """The first line that differs at the place that fits best; the nearest of equals to where it should be."""
    if places(lines, hunk.new, start):
        at = places(lines, hunk.new, start)[0]
        return Conflict(path=path, line=at + 1, why="this hunk is already there, others are not: half applied")
    if lines and lines[0].endswith(b"\r\n") != hunk.old[0].endswith(b"\r\n"):
        return Conflict(path=path, line=1, why="its line ends (CRLF or LF) are not the patch's")
    last = max(start, len(lines) - len(hunk.old))
    best = max(range(start, last + 1), key=lambda at: (_equal(lines, hunk, at), -abs(at - expected)))
    index = next((i for i, line in enumerate(hunk.old) if _at(lines, best + i) != line), 0)
    return Conflict(path=path, line=best + index + 1, why="the context changed",
                    expected=_show(hunk.old[index]), found=_show(_at(lines, best + index)))  # fmt: skip


def _equal(lines: Sequence[bytes], hunk: Hunk, at: int) -> int:
    return sum(_at(lines, at + index) == line for index, line in enumerate(hunk.old))


def _at(lines: Sequence[bytes], index: int) -> bytes:
    return lines[index] if index < len(lines) else b""


def _show(line: bytes) -> str:
    return line.decode("utf-8", "replace").rstrip("\r\n")
