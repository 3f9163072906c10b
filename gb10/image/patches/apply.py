"""Strict application of one file's hunks: every line equal, one place only; never fuzz. Pure.

As with ``git apply``, a hunk may stand elsewhere than its header says, but one of the file's start or end only there.
Unlike with it, not when several places would do. What is applied here, git applies to the same bytes.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from gb10.image.patches.diff import FileDiff, Hunk, split


@dataclass(frozen=True, kw_only=True, slots=True)
class Conflict:
    """Why a diff does not fit: file, line (from 1; 0 for the whole file), the expected text and the text found."""

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


@dataclass(frozen=True, slots=True)
class Changes:
    """The files that a patch changes, by path (None: gone), and by how many lines hunks had moved."""

    files: Mapping[str, bytes | None]
    offsets: Mapping[str, tuple[int, ...]]


def apply_patch(diffs: Iterable[FileDiff], added: Mapping[str, bytes], read: Callable[[str], bytes | None]) -> Changes:
    """A whole patch on the files that ``read`` returns; ``added`` are whole new files. Raises ConflictError."""
    applied = {diff.path: apply_diff(diff, read(diff.path)) for diff in diffs}
    for path in added:
        if read(path) is not None:
            raise ConflictError(Conflict(path=path, line=0, why="the file to add is already there"))
    files = {path: result.content for path, result in applied.items()}
    offsets = {path: result.offsets for path, result in applied.items() if any(result.offsets)}
    return Changes(files | dict(added), offsets)


def apply_diff(diff: FileDiff, content: bytes | None) -> Applied:
    """The file after the diff; ``content`` is None when there is no such file. Raises ConflictError."""
    if (content is None) != (diff.kind == "add"):
        why = "there is no such file" if content is None else "the file to add is already there"
        raise ConflictError(Conflict(path=diff.path, line=0, why=why))
    lines = split(content or b"")
    offsets: list[int] = []
    end = 0
    for hunk in diff.hunks:
        place = _place(diff.path, lines, hunk, end, moved=any(offsets))
        offsets.append(place - _told(hunk))
        lines[place : place + len(hunk.old)] = hunk.new
        end = place + len(hunk.new)
    if diff.kind == "delete" and lines:
        raise ConflictError(Conflict(path=diff.path, line=1, why="the file to delete is not empty any more"))
    return Applied(None if diff.kind == "delete" else b"".join(lines), tuple(offsets))


def places(lines: Sequence[bytes], wanted: Sequence[bytes], start: int = 0) -> list[int]:
    """Every index from ``start`` at which the wanted lines stand."""
    if not wanted:
        return [*range(start, len(lines) + 1)]
    text, part = b"".join(lines[start:]), b"".join(wanted)
    found, line, counted = [], start, 0
    at = text.find(part)
    while at >= 0:
        line, counted = line + text.count(b"\n", counted, at), at
        whole = part.endswith(b"\n") or at + len(part) == len(text)
        if whole and (at == 0 or text[at - 1 : at] == b"\n"):
            found.append(line)
        at = text.find(part, at + 1)
    return found


def _told(hunk: Hunk) -> int:
    """The line where a hunk stands by its header, after the hunks before it are applied."""
    return max(hunk.new_line - 1, 0)


def _place(path: str, lines: Sequence[bytes], hunk: Hunk, end: int, *, moved: bool) -> int:
    """The one place of a hunk, after ``end``; of several, the header's, unless a hunk before it ``moved``."""
    found = places(lines, hunk.old)
    fit = [at for at in found if _anchored(hunk, at, len(lines))]
    if len(fit) > 1 and _told(hunk) in fit and not moved:
        fit = [_told(hunk)]
    if len(fit) == 1 and fit[0] >= end:
        return fit[0]
    if len(fit) > 1:
        at = ", ".join(str(place + 1) for place in fit[:4])
        raise ConflictError(Conflict(path=path, line=fit[0] + 1, why=f"the context stands in several places: {at}"))
    if found:
        why = "the hunk before it reaches there" if fit else _not_there(hunk)
        raise ConflictError(Conflict(path=path, line=found[0] + 1, why=why))
    raise ConflictError(_mismatch(path, lines, hunk, end))


def _anchored(hunk: Hunk, at: int, length: int) -> bool:
    """Whether a hunk of the file's start or end would stand there, as ``git apply`` demands."""
    return (hunk.line > 1 or at == 0) and (not hunk.at_end or at + len(hunk.old) == length)


def _not_there(hunk: Hunk) -> str:
    where = "its end" if hunk.line > 1 else "the whole file" if hunk.at_end else "its start"
    return f"the patch knows these lines as {where}, which they are not"


def _mismatch(path: str, lines: Sequence[bytes], hunk: Hunk, start: int) -> Conflict:
    """The first line that differs at the place that fits best; the nearest of equals to where it should be."""
    there = places(lines, hunk.new, start) if hunk.new else []
    if there:
        return Conflict(path=path, line=there[0] + 1, why="this hunk is already there, others are not: half applied")
    if lines and lines[0].endswith(b"\r\n") != hunk.old[0].endswith(b"\r\n"):
        return Conflict(path=path, line=1, why="its line ends (CRLF or LF) are not the patch's")
    last = max(start, len(lines) - len(hunk.old))
    best = max(range(start, last + 1), key=lambda at: (_equal(lines, hunk, at), -abs(at - _told(hunk))))
    index = next((i for i, line in enumerate(hunk.old) if _at(lines, best + i) != line), 0)
    return Conflict(
        path=path,
        line=best + index + 1,
        why="the context changed",
        expected=_show(hunk.old[index]),
        found=_show(_at(lines, best + index)),
    )


def _equal(lines: Sequence[bytes], hunk: Hunk, at: int) -> int:
    return sum(_at(lines, at + index) == line for index, line in enumerate(hunk.old))


def _at(lines: Sequence[bytes], index: int) -> bytes:
    return lines[index] if index < len(lines) else b""


def _show(line: bytes) -> str:
    return line.decode("utf-8", "replace").rstrip("\r\n")
