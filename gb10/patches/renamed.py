"""The files of a diff, each under another path; hunks stay byte for byte. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gb10.patches.diff import FileDiff, split
from gb10.patches.parse import HUNK, NOTHING, parse_diff


@dataclass(frozen=True, slots=True)
class Section:
    """One file of a diff, with its hunks as they are written there."""

    diff: FileDiff
    hunks: bytes

    def at(self, path: str) -> bytes:
        """The same change of the file at another path, as git writes it."""
        name = path.encode("utf-8", "surrogateescape")
        kind = {"add": b"new file mode 100644\n", "delete": b"deleted file mode 100644\n", "change": b""}
        old, new = (
            NOTHING.encode() if self.diff.kind == gone else side + name
            for gone, side in (("add", b"a/"), ("delete", b"b/"))
        )
        head = b"diff --git a/%s b/%s\n%s" % (name, name, kind[self.diff.kind])
        return head + (b"--- %s\n+++ %s\n%s" % (old, new, self.hunks) if self.hunks else b"")


def sections(text: bytes, name: str) -> Mapping[str, Section]:
    """The files of a diff by path. Raises PatchError as ``parse_diff``."""
    diffs = parse_diff(text, name)
    groups = iter(_hunks(split(text)))
    return {diff.path: Section(diff, next(groups) if diff.hunks else b"") for diff in diffs}


def _hunks(lines: Sequence[bytes]) -> Iterator[bytes]:
    """The hunks of each file that has some, of a diff that is known to be one."""
    found: list[bytes] = []
    at = 0
    while at < len(lines):
        head = HUNK.match(lines[at])
        if head is None:
            if found:
                yield b"".join(found)
            found, at = [], at + 1
            continue
        end = _end(lines, at + 1, int(head[2] or 1), int(head[4] or 1))
        found += lines[at:end]
        at = end
    if found:
        yield b"".join(found)


def _end(lines: Sequence[bytes], at: int, old: int, new: int) -> int:
    """Where a hunk ends that has so many lines of the old and of the new file."""
    while old or new or (lines[at : at + 1] and lines[at].startswith(b"\\ ")):
        sign = lines[at][:1]
        old -= sign not in (b"+", b"\\")
        new -= sign not in (b"-", b"\\")
        at += 1
    return at
