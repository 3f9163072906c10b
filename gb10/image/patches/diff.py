"""Diffs in git's format or plain unified format: read into values; other text is refused. Pure.

Refused before anything is applied: paths that leave the tree, binary hunks, mode changes, renames, and whatever
``git apply`` takes for damaged.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final, Literal

from gb10.errors import PatchError

MOST_BYTES: Final = 8 << 20
Kind = Literal["change", "add", "delete"]
HUNK: Final = re.compile(rb"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
GIT: Final = b"diff --git "
BINARY: Final = re.compile(rb"GIT binary patch$|Binary files .+ and .+ differ$")
REFUSED: Final = {
    b"old mode ": "a change of a file's mode",
    b"new mode ": "a change of a file's mode",
    b"rename ": "a rename",
    b"copy ": "a copy",
}
MADE, GONE, INDEX = b"new file mode ", b"deleted file mode ", b"index "
PASSED: Final = (MADE, GONE, INDEX, b"similarity index ", b"dissimilarity index ")
EMPTY_FILE: Final = re.compile(rb"\b(e69de29|473a0f4)")  # how git names an empty file, by SHA-1 and by SHA-256
SIGNATURE: Final = b"--"  # of a mail, after the last hunk
SHORTEST_NOTE: Final = 12
NOTHING: Final = "/dev/null"
START: Final = re.compile(rb"(?m)^(diff --git |--- )")
PAGE: Final = re.compile(rb"\s*(<!--.*?-->\s*)*<(!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL)
HEAD: Final = 1 << 14
"""Bytes in which a page shows that it is one."""
REQUEST: Final = re.compile(r"(https?://[^?#\s]+?/(?:pull|merge_requests|commit)/[0-9a-f]+)(?:[/?#].*)?")
EMPTY: Final = "get it again; a pull request's diff is at its address with .diff at the end"


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
    """The change of one file; ``path`` is relative to the source's root. An empty file has no hunks."""

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


def parse_diff(text: bytes, name: str) -> tuple[FileDiff, ...]:
    """Every file of a diff, in its order; raises PatchError with ``name`` and the line."""
    check_size(len(text), name)
    diffs = tuple(_Parser(text, name).files())
    if not diffs:
        raise PatchError(f"{name} changes nothing", where=name, hint="a patch is a diff in git's format")
    twice, count = Counter(diff.path for diff in diffs).most_common(1)[0]
    if count > 1:
        raise PatchError(f"{name} changes {twice} twice", where=name, hint="join its hunks under one file header")
    return diffs


class _Parser:
    """One pass over the lines of a diff."""

    def __init__(self, text: bytes, name: str) -> None:
        self.lines = split(text)
        self.name = name
        self.at = 0

    def error(self, message: str, hint: str | None = None) -> PatchError:
        return PatchError(f"{self.name}: {message}", where=f"{self.name}:{self.at + 1}", hint=hint)

    def files(self) -> Iterator[FileDiff]:
        """The files, from their headers on; text between them, as a mail's header, is passed over."""
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if line.startswith(GIT):
                yield self._section()
            elif self._has_names():
                yield self._file()
            elif HUNK.match(line):
                raise self.error("a hunk without the header of a file")
            else:
                self._refuse_binary(line)
                self.at += 1

    def _line(self, at: int) -> bytes:
        return self.lines[at] if at < len(self.lines) else b""

    def _has_names(self) -> bool:
        return self._line(self.at).startswith(b"--- ") and self._line(self.at + 1).startswith(b"+++ ")

    def _refuse_binary(self, line: bytes) -> None:
        if BINARY.match(line.rstrip()):
            raise self.error("it holds a binary hunk", "a patch may only change, add and delete lines of text")

    def _section(self) -> FileDiff:
        """A file under git's own header; of an empty file that is all there is."""
        path, top = self._named_twice(), self.at
        self.at += 1
        kind: Kind = "change"
        while (line := self._line(self.at)).startswith((*PASSED, *REFUSED)):
            self._refuse(line)
            kind = "add" if line.startswith(MADE) else "delete" if line.startswith(GONE) else kind
            self.at += 1
        self._refuse_binary(line)
        if self._has_names():
            diff = self._file()
            if (diff.path, diff.kind) == (path, kind):
                return diff
            raise self.error(f"git's header of {diff.path} does not say what its other lines say")
        indexes = [line for line in self.lines[top : self.at] if line.startswith(INDEX)]
        if path is None or kind == "change" or not all(map(EMPTY_FILE.search, indexes)):
            raise self.error("a file without a hunk")
        return FileDiff(path, kind, ())

    def _named_twice(self) -> str | None:
        """The path of ``diff --git a/PATH b/PATH``; None when there are two."""
        names = self.lines[self.at].removeprefix(GIT).rstrip(b"\r\n")
        old, between, new = names[: len(names) // 2], names[len(names) // 2 :][:1], names[len(names) // 2 + 1 :]
        if between != b" " or old.partition(b"/")[2] != new.partition(b"/")[2]:
            return None
        path = self._path(new)
        return None if path == NOTHING else path

    def _refuse_half(self, line: bytes) -> None:
        if not line.endswith(b"\n"):
            raise self.error("it ends in the middle of a line", "its end was cut off: get it anew")

    def _refuse(self, line: bytes) -> None:
        self._refuse_half(line)
        what = next((what for start, what in REFUSED.items() if line.startswith(start)), None)
        if what:
            raise self.error(f"it holds {what}", "a patch may only change, add and delete lines of text")
        mode = line.split()[-1].decode("ascii", "replace")
        if line.startswith(MADE) and mode != "100644":
            raise self.error(
                f"it adds a file that is not a plain one (mode {mode})", "a patch adds plain files only (mode 100644)"
            )
        if (line.startswith(GONE) or (line.startswith(INDEX) and len(line.split()) > 2)) and mode[:3] != "100":
            raise self.error(f"it touches what is not a plain file (mode {mode})", "a link or a submodule is no text")

    def _file(self) -> FileDiff:
        old, new = self._path(self.lines[self.at][4:]), self._path(self.lines[self.at + 1][4:])
        if (old != NOTHING and new not in (NOTHING, old)) or old == new == NOTHING:
            raise self.error(f"it turns {old} into {new}", "a patch keeps the names of files")
        kind: Kind = "add" if old == NOTHING else "delete" if new == NOTHING else "change"
        self.at += 2
        hunks = tuple(self._hunks())
        if kind != "change" and (len(hunks) > 1 or (hunks[0].old if kind == "add" else hunks[0].new)):
            raise self.error(f"to {kind} a file takes one hunk that has nothing else")
        return FileDiff(new if kind != "delete" else old, kind, hunks)

    def _path(self, name: bytes) -> str:
        text = name.rstrip(b"\r\n").split(b"\t")[0].decode("utf-8", "surrogateescape")
        if text == NOTHING:
            return text
        path = PurePosixPath(text)
        if text.startswith('"') or path.is_absolute() or ".." in path.parts or len(path.parts) < 2:
            raise self.error(f"the path {text} is not one below the source's root", "paths start with a/ or b/")
        return "/".join(path.parts[1:])

    def _hunks(self) -> Iterator[Hunk]:
        if not self._line(self.at).startswith(b"@@ "):
            raise self.error("a file without a hunk")
        while (line := self._line(self.at)).startswith(b"@@ "):
            yield self._hunk()
        if line[:1] in (b"+", b"-", b" ", b"\\") and line.rstrip() != SIGNATURE and not self._has_names():
            raise self.error("a hunk is longer than its header states")

    def _hunk(self) -> Hunk:
        """One hunk; an error in it as a whole is one of its header's line."""
        head, top = HUNK.match(self.lines[self.at]), self.at
        if not head:
            raise self.error("a hunk's header is damaged")
        body = self._body(int(head[2] or 1), int(head[4] or 1))
        after, self.at = self.at, top
        old, new = (tuple(line[1:] for line in body if line[:1] != sign) for sign in (b"+", b"-"))
        signs = [line[:1] for line in body]
        hunk = Hunk(int(head[1]), int(head[3]), old, new, at_end=signs[-1:] != [b" "])
        if not {b"+", b"-"} & set(signs):
            raise self.error("a hunk changes nothing")
        if b" " not in signs and (hunk.line, hunk.new_line) != (bool(old), bool(new)):
            raise self.error("a hunk without lines of context", "it could stand anywhere: make the patch with -U3")
        if any(not line.endswith(b"\n") for side in (old, new) for line in side[:-1]):
            raise self.error("a hunk goes on after the last line of its file")
        self.at = after
        return hunk

    def _body(self, old_left: int, new_left: int) -> list[bytes]:
        """The lines of a hunk with their signs; where git notes so, without their end."""
        body: list[bytes] = []
        self.at += 1
        while old_left or new_left or self._line(self.at).startswith(b"\\ "):
            line = self._signed()
            if line[:1] == b"\\":
                body[-1:] = [self._cut(body[-1:])]
            else:
                body.append(line)
                old_left -= line[:1] != b"+"
                new_left -= line[:1] != b"-"
            if min(old_left, new_left) < 0:
                raise self.error("a hunk is longer than its header states")
            self.at += 1
        return body

    def _signed(self) -> bytes:
        line = self._line(self.at)
        if not line:
            raise self.error("a hunk is shorter than its header states")
        self._refuse_half(line)
        if line[:1] not in (b" ", b"-", b"+", b"\n") and not line.startswith(b"\\ "):
            raise self.error("a line of a hunk has no sign")
        return b" \n" if line == b"\n" else line  # some tools drop the space before an empty line

    def _cut(self, last: list[bytes]) -> bytes:
        """A line without its end: the note after it marks this."""
        noted = len(self._line(self.at)) > SHORTEST_NOTE and last and last[0].endswith(b"\n")
        if not noted or not last[0][1:-1]:
            raise self.error("a note of a missing newline follows no line")
        return last[0].removesuffix(b"\n")


def check_diff(text: bytes, name: str, url: str = "") -> None:
    """Raise PatchError for what is no diff at all; ``url``: where it came from, if from the web."""
    if not text.strip():
        raise PatchError(f"{name} is empty", where=url or None, hint=EMPTY)
    if PAGE.match(text[:HEAD]):
        found = REQUEST.fullmatch(url)
        hint = f"give the diff itself: --patch {found[1]}.diff" if found else EMPTY
        raise PatchError(f"{name} is a web page, not a diff", where=url or None, hint=hint)
    if not START.search(text):
        raise PatchError(
            f"{name} is not a diff: no line of it begins with `diff --git` or `---`", where=url or None, hint=EMPTY
        )
