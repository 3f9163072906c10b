"""Diffs on the files of an image of others: where each file lies there, and the strict result. Pure.

A diff names a file as its repository does, as the installed package does, or by its whole path in the image.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from packaging.utils import canonicalize_name

from gb10.errors import PatchError
from gb10.image.patches.apply import ConflictError, apply_diff
from gb10.image.patches.diff import FileDiff, parse_diff
from gb10.image.patches.owners import CODE, UNREAD, owner_of, with_plain_names
from gb10.image.patches.places import harmless, installed, placed
from gb10.image.patches.releases import Releases
from gb10.image.patches.write import COMPILED

Read = Callable[[Sequence[str]], Mapping[str, bytes]]
"""The files of an image among these absolute paths."""
SOURCES: Final = re.compile(r"\A(?:[^/]*-[^/]*/)?(?:src|python|lib)/(?=[^/]+/)")
"""Folders in which repositories keep their package; one that keeps several has a folder for each."""
LISTED: Final = 10
OTHER: Final = "the diff is for another version of it: make it again for this one; nothing was changed"
ENGINE: Final = "build the engine from its sources: ./build.py image --ref"
PACKAGE: Final = "compile the package for an image of gb10's own: ./build.py wheels --add NAME==VERSION"
WHOLE: Final = "give its whole path in the image, or the file itself: --overlay DIR"
SETUP: Final = "setup.py"


@dataclass(frozen=True, kw_only=True, slots=True)
class OnBase:
    """What diffs are placed by: an image's packages, and the engine that it holds."""

    reference: str
    engine: str
    version: str
    folders: Mapping[str, str]
    """The folder that holds the packages of each distribution, by normalized name."""
    site_packages: tuple[str, ...]
    editable: frozenset[str] = frozenset()
    """Distributions that lie in a checkout, before what site-packages hold."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Placed:
    """A file of a diff: the paths in the image at which it may lie, the likeliest first, and who owns it."""

    diff: FileDiff
    source: str
    paths: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class GivenDiff:
    """A diff by its name and its files; ``unread``: files of a repository that no image has, as tests and docs.

    ``uncompiled``: new files for a compiler, which a package may compile where it runs; gb10 does not.
    """

    name: str
    files: tuple[Placed, ...]
    unread: tuple[str, ...]
    uncompiled: tuple[str, ...] = ()


def place_diff(text: bytes, name: str, on: OnBase, releases: Releases, named: str | None = None) -> GivenDiff:
    """Where the files of a diff lie. ``named`` is the source that the user names.

    Raises PatchError for what is no diff, for a file that an image has only compiled, and for one without any place.
    """
    files, unread = list[Placed](), list[str]()
    for diff in parse_diff(with_plain_names(text, releases), name):
        whole = _whole(diff.path, on)
        source, path = owner_of(releases, diff.path)
        source = source or named
        inside = placed(path, releases.layouts[source], wheel=True) if source in releases.layouts else path
        inside = SOURCES.sub("", inside, count=1) if source is None else inside
        if source in releases.layouts:
            there = installed(path, releases.layouts[source])
        else:
            path_bytes = diff.path.encode("utf-8", "surrogateescape")
            header = rb"^(?:---|\+\+\+|rename to) \S*-packages/%b(?=\s)" % re.escape(path_bytes)
            by_place = re.search(header, text, re.MULTILINE) is not None
            there = by_place or _imported(inside, on, new=diff.kind == "add")
        if whole is None and not there:
            if not _is_unread(path) or _is_code(path):
                raise _placeless(name, diff.path, source, on)
            unread.append(diff.path)
            continue
        top = str(canonicalize_name(PurePosixPath(inside).parts[0]))
        paths = (whole,) if whole else _candidates(inside, source or top, on)
        if not paths:
            raise PatchError(
                f"{name} changes {diff.path}, which has no place in {on.reference}",
                where="the image holds no Python packages",
                hint=WHOLE,
            )
        files.append(Placed(diff=diff, source=source or top, paths=paths))
    if not files:
        raise PatchError(
            f"{name} changes nothing that {on.reference} holds",
            where="\n".join(unread[:LISTED]),
            hint="files of tests and docs are in no image",
        )
    new = (file.diff.path for file in files if file.diff.kind == "add" and _is_code(file.diff.path))
    return GivenDiff(name=name, files=tuple(files), unread=tuple(unread), uncompiled=tuple(new))


def _imported(path: str, on: OnBase, *, new: bool) -> bool:
    """Whether Python could find a file of no known source: an import names its top. New code for a compiler lies in a
    distribution of the image."""
    top = path.partition("/")[0]
    if new and _is_code(path) and canonicalize_name(top) not in on.folders:
        return False
    return top.removesuffix(".py").isidentifier() and not _is_unread(path)


def _is_code(path: str) -> bool:
    """Whether only a compiler reads a file."""
    return not harmless(path) and (path.startswith(COMPILED) or PurePosixPath(path).suffix in CODE)


def _is_unread(path: str) -> bool:
    """Whether a repository has a file, and no package: that of its root, its tests, what it is compiled of."""
    root = "/" not in path and (path == SETUP or not path.endswith(".py"))
    return root or harmless(path) or path.startswith((*COMPILED, *UNREAD, "."))


def _placeless(name: str, path: str, source: str | None, on: OnBase) -> PatchError:
    """Of a file that lies in no package; what is compiled has other ways than what is not."""
    if not _is_code(path):
        return PatchError(
            f"{name} changes {path}, which is no path of an installed package",
            where=f"packages of {on.reference} lie in {', '.join(on.site_packages)}",
            hint=WHOLE,
        )
    return PatchError(
        f"{name} changes {path}, which is compiled",
        where=f"{on.reference} holds what {source or 'a package'} installs, not what it compiles",
        hint=f"leave it out of the diff, or {ENGINE if source else PACKAGE}\n{WHOLE}",
    )


def _whole(path: str, on: OnBase) -> str | None:
    """The path of a file that the diff names as it lies in the image, below a folder of packages."""
    starts = {folder.strip("/") for folder in (*on.site_packages, *on.folders.values()) if folder.strip("/")}
    return f"/{path}" if any(path.startswith(f"{start}/") for start in starts) else None


def _candidates(inside: str, owner: str, on: OnBase) -> tuple[str, ...]:
    """Where a file of a package may lie: in the folder of its distribution, then in those of ``sys.path``."""
    first = [on.folders[owner]] if owner in on.folders else []
    folders = dict.fromkeys((*first, *on.site_packages, *(on.folders[name] for name in sorted(on.editable))))
    return tuple(str(PurePosixPath(folder) / inside) for folder in folders)


def apply_on(diffs: Iterable[GivenDiff], on: OnBase, read: Read) -> dict[str, bytes]:
    """The files after all diffs, by their absolute path. Raises PatchError for the first that does not fit."""
    given = tuple(diffs)
    below = read(tuple(dict.fromkeys(path for one in given for file in one.files for path in file.paths)))
    changed: dict[str, bytes] = {}
    for one in given:
        for file in one.files:
            path = _lies(file, {**below, **changed}, below)
            content = changed.get(path, below.get(path))
            try:
                result = apply_diff(FileDiff(path, file.diff.kind, file.diff.hunks), content).content
            except ConflictError as error:
                raise _misfit(one, file, on, error, content) from error
            if result is None:
                raise PatchError(
                    f"{one.name} deletes {path}",
                    where=on.reference,
                    hint="a layer above an image cannot take a file of it away: let the diff empty it",
                )
            changed[path] = result
    return changed


def _lies(file: Placed, known: Mapping[str, bytes], below: Mapping[str, bytes]) -> str:
    """Where a file lies; a new one beside the package's other files."""
    there = next((path for path in file.paths if path in known), None)
    if there or len(file.paths) == 1:
        return there or file.paths[0]
    ends = [PurePosixPath(path).parent for path in below]
    return next((path for path in file.paths if PurePosixPath(path).parent in ends), file.paths[0])


def _misfit(one: GivenDiff, file: Placed, on: OnBase, error: ConflictError, content: bytes | None) -> PatchError:
    if content is None and file.diff.kind != "add":
        looked = "\n".join(f"looked at {path}" for path in file.paths[:LISTED])
        code = _is_code(file.diff.path)
        return PatchError(
            f"{one.name} changes {file.diff.path}, which {on.reference} does not hold",
            where=looked,
            hint=f"where it is compiled, the image has the result alone: {PACKAGE}" if code else OTHER,
        )
    engine = f" ({on.engine} {on.version})" if on.engine else ""
    return PatchError(f"{one.name} does not apply to {on.reference}{engine}", where=str(error.conflict), hint=OTHER)
