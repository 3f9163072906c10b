"""Writing patches: a diff of two texts in git's form, and a patch carried over to a tree it no longer fits. Pure."""

import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

from gb10.image.patches.apply import Conflict, ConflictError
from gb10.image.patches.diff import split
from gb10.image.patches.places import harmless, installed, placed
from gb10.image.patches.source_tree import Tree
from gb10.image.recipe.image_recipe import Layout

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


COMPILED: Final = ("CMakeLists.txt", "cmake/", "csrc/", "include/", "3rdparty/", "tools/util/include/")
"""What compile stages read of an archive, beside what it installs."""
GENERATED: Final = ("_version.py", "_build_meta.py")
"""What a release's own build writes into it: a checkout has none, or another one's."""
LIBRARY: Final = ".so"
"""What a wheel's build compiled: no checkout is needed for it."""
Both = tuple[bytes | None, bytes | None]
Fate = Literal["gone", "elsewhere", "unread", "binary", "changed"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """A checkout against a release, by path in the release. ``known`` is how many files of it count here.

    ``installed`` and ``compiled`` have each file's content before and after; ``gone`` are files that only the release
    has. ``unread`` differ where nothing here reads them, ``binary`` are new and no text, ``elsewhere`` belong to
    another source that the release bundles, ``outside`` are not in the wheel that stands for the release.
    """

    known: int
    installed: Mapping[str, Both]
    compiled: Mapping[str, Both]
    gone: tuple[str, ...]
    unread: tuple[str, ...]
    binary: tuple[str, ...]
    elsewhere: tuple[str, ...]
    outside: tuple[str, ...]

    @property
    def differ(self) -> tuple[str, ...]:
        """The release's own files that count and are not in the checkout as they are in the release."""
        changed = {**self.installed, **self.compiled}
        return tuple(sorted((*(path for path, (before, _) in changed.items() if before is not None), *self.gone)))


def compare(
    layout: Layout, release: Tree, checkout: Tree, files: Collection[str], *, bundled: Collection[str] = ()
) -> Difference:
    """Every one of these files of a checkout against a release; ``bundled`` are folders of other sources in it."""
    others = tuple(f"{folder}/" for folder in bundled)
    here = {placed(path, layout, wheel=release.installed): path for path in files}
    strangers = dict.fromkeys(place for place in sorted(here) if release.installed and not installed(place, layout))
    own = (path for path in release.paths() if not path.startswith(others) and not path.endswith(LIBRARY))
    theirs = [path for path in own if _counts(path, layout)]
    found: dict[Fate, list[str]] = {fate: [] for fate in get_args(Fate)}
    changed: dict[str, Both] = {}  # of all others only the names are kept: a checkout may hold gigabytes
    for place, path in sorted(here.items()):
        if not _generated(place) and place not in strangers:
            both = (release.read(place), checkout.read(path))
            if both[0] != both[1]:
                fate = _fate(place, both, others, layout)
                found[fate].append(place)
                if fate == "changed":
                    changed[place] = both
    return Difference(
        known=len(theirs),
        installed={path: both for path, both in changed.items() if _in_wheel(path, layout)},
        compiled={path: both for path, both in changed.items() if not _in_wheel(path, layout)},
        gone=tuple(path for path in theirs if path not in here or path in found["gone"]),
        unread=tuple(found["unread"]),
        binary=tuple(found["binary"]),
        elsewhere=tuple(found["elsewhere"]),
        outside=tuple(here[place] for place in strangers),
    )


def counted(layout: Layout, paths: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Of paths in a repository, the places of what is installed and of what is compiled. Pure."""
    places = sorted({placed(path, layout, wheel=False) for path in paths})
    own = [place for place in places if _counts(place, layout)]
    return (
        tuple(place for place in own if _in_wheel(place, layout)),
        tuple(place for place in own if not _in_wheel(place, layout)),
    )


def _fate(place: str, both: Both, others: tuple[str, ...], layout: Layout) -> Fate:
    """What becomes of a file that differs, given its content before and after."""
    before, after = both
    if after is None:
        return "gone"
    if place.startswith(others):
        return "elsewhere"
    if not _counts(place, layout):
        return "unread"
    return "binary" if before is None and b"\0" in after else "changed"


def diff_text(changed: Mapping[str, Both]) -> bytes:
    """The changes of some files as one diff, the same for the same content."""
    return b"".join(file_diff(path, before, after) for path, (before, after) in sorted(changed.items()))


def _counts(path: str, layout: Layout) -> bool:
    """Whether a wheel or a compile stage takes a file, one that the release's own build writes left out."""
    taken = installed(path, layout) or (path.startswith(COMPILED) and not harmless(path))
    return taken and not _generated(path)


def _generated(path: str) -> bool:
    return path.rsplit("/", 1)[-1] in GENERATED


def _in_wheel(path: str, layout: Layout) -> bool:
    return installed(placed(path, layout, wheel=True), layout)
