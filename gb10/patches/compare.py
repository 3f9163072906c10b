"""What a checkout changes of a release, sorted by what becomes of it here. Pure over the two trees."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

from gb10.image.recipe.layout import Layout
from gb10.patches.places import harmless, installed, placed
from gb10.patches.source_tree import Tree
from gb10.patches.write import file_diff

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
