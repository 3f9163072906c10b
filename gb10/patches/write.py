"""Writing patches: a diff of two texts in git's form, and a patch carried over to a tree it no longer fits. Pure."""

import difflib
from collections.abc import Sequence

from gb10.patches.apply import Conflict, ConflictError
from gb10.patches.diff import split

CUT = b"\\ No newline at end of file\n"


def file_diff(path: str, before: bytes | None, after: bytes | None) -> bytes:
    """One file of a patch; None for a file that is not there. An empty one is its header; an equal one is nothing."""
    if before == after:
        return b""
    old, new = (f"{side}/{path}" for side in "ab")
    head = [f"diff --git {old} {new}\n".encode()]
    head += [b"new file mode 100644\n"] if before is None else [b"deleted file mode 100644\n"] if after is None else []
    lines = difflib.diff_bytes(
        difflib.unified_diff,
        split(before or b""),
        split(after or b""),
        b"/dev/null" if before is None else old.encode(),
        b"/dev/null" if after is None else new.encode(),
    )
    return b"".join([*head, *(line if line.endswith(b"\n") else line + b"\n" + CUT for line in lines)])


def carry_over(path: str, base: bytes, patched: bytes, tree: bytes) -> bytes:
    """The tree's file with what ``patched`` changed in ``base``: a three-way merge that never picks a side.

    A changed line must stand unchanged in the tree, and two lines (or ends of the file) between which some are added
    must still be neighbours. Raises ConflictError.
    """
    old, new, lines = split(base), split(patched), split(tree)
    ends = _matches(old, lines)
    out: list[bytes] = []
    at = 0
    for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        start = _place(path, old, lines, ends, (i1, i2))
        out += [*lines[at:start], *new[j1:j2]]
        at = start + (i2 - i1)
    return b"".join([*out, *lines[at:]])


def _matches(old: Sequence[bytes], new: Sequence[bytes]) -> dict[int, int]:
    """Line of the old text -> its line in the new one, where difflib finds them to be the same; both ends are."""
    blocks = difflib.SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
    ends = {-1: -1, len(old): len(new)}
    return ends | {block.a + index: block.b + index for block in blocks for index in range(block.size)}


def _place(path: str, old: Sequence[bytes], lines: Sequence[bytes], same: dict[int, int], span: tuple[int, int]) -> int:
    """Where the changed lines ``span`` of the old text stand in the tree; of an addition, between which two."""
    first, last = span
    needed = range(first, last) if first < last else range(first - 1, first + 1)
    start = same.get(needed[0], -2)  # -1 is the start of the file
    lost = next((i for i in needed if same.get(i) != start + i - needed[0]), None)
    if lost is None:
        return start + first - needed[0]
    near = next(same[i] + 1 for i in range(lost - 1, -2, -1) if i in same)
    what = "that the patch changes" if first < last else "between which the patch adds some"
    raise ConflictError(
        Conflict(
            path=path,
            line=near + 1,
            why=f"upstream changed the lines {what}",
            expected=_show(old, lost),
            found=_show(lines, near),
        )
    )


def _show(lines: Sequence[bytes], index: int) -> str:
    return lines[index].decode("utf-8", "replace").rstrip() if index < len(lines) else ""
