"""Releases of patched sources: fetched by pin (or as the index names them), kept so that any file is read at once."""

import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from packaging.utils import (
    InvalidName,
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import Version

from gb10.core.fetch import intact
from gb10.core.files import Artifact
from gb10.core.reporter import Reporter
from gb10.core.store import Store, is_sealed, seal
from gb10.errors import FetchError, PatchError, UsageError
from gb10.image.patches.archives import Repacked
from gb10.image.patches.places import harmless
from gb10.image.patches.releases import Release, Releases, check_told
from gb10.image.patches.source_tree import Below, Tree, open_tree
from gb10.image.recipe.image_recipe import Layout

if TYPE_CHECKING:
    from gb10.sources.index.page import Link

TREE = "tree.zip"
MOST_PACKAGES = 1_000
GB10_WHEEL = ("none-any", "cp313-cp313-manylinux", "abi3-manylinux")


@dataclass(frozen=True, kw_only=True, slots=True)
class Library:
    """Series and pins of a checkout (``root``), and what it takes to fetch a release."""

    root: Path
    store: Store
    env: Mapping[str, str]
    reporter: Reporter


@dataclass(frozen=True, kw_only=True, slots=True)
class Opened:
    """A release, or a directory that stands for one, ready to be read; ``release``: its file, if it is one."""

    source: str
    version: Version
    tree: Tree
    pinned: bool
    release: Release | None = None


def parse_version(text: str) -> Version:
    """A release as users write it; raises UsageError."""
    try:
        return Version(text)
    except ValueError as error:  # packaging's own, or a number of too many digits
        raise UsageError(
            f"{text!r} is no version", hint="a release as the package index names it, as 0.33.0"
        ) from error


def open_release(library: Library, releases: Releases, source: str, version: Version) -> Opened:
    """A release by its pin, else by the index of today; then a note is printed.

    Raises FetchError, UsageError, and PatchError for a pin whose tree is of another version.
    """
    pinned = releases.source(source).pinned(version)
    release = pinned or _ask(library, releases, source, version)
    around = _tree(library, release)
    tree = Below(around, release.folder) if release.folder else around
    where = f"{release.filename}, {release.folder}" if release.folder else release.filename
    _check_told(releases, source, version, tree, where)
    return Opened(source=source, version=version, tree=tree, pinned=pinned is not None, release=release)


def open_projects(
    library: Library, releases: Releases, refs: Mapping[str, Version]
) -> tuple[Releases, dict[str, Opened]]:
    """Releases of sources, and of any other project of the package index, which becomes a source with the folders
    that its own file shows. Raises as ``open_release``."""
    wanted = dict[str, Version]()
    for name, version in refs.items():
        try:
            project = canonicalize_name(name, validate=True)
        except InvalidName as error:
            raise UsageError(f"{name!r} is no name of a package", hint="write --ref NAME=VERSION") from error
        source = releases.source_of(name) or releases.source_of(project) or project
        if source in wanted:
            raise UsageError(f"two releases of {source}", where=", ".join(refs), hint="name one with --ref")
        wanted[source] = version
    every = releases.with_own({source: source for source in wanted})
    opened = {source: open_release(library, every, source, version) for source, version in wanted.items()}
    layouts = {source: layout_of(source, one.tree) for source, one in opened.items() if source not in releases.sources}
    return every.with_layouts(layouts), opened


def layout_of(source: str, tree: Tree) -> Layout:
    """The Python packages of a tree: the uppermost folders of a wheel, else those with an ``__init__.py`` above which
    there is none, wherever a source archive keeps them. Raises PatchError."""
    if tree.installed:
        tops = {path.partition("/")[0] for path in tree.paths() if "/" in path}
        roots = sorted(top for top in tops if not top.endswith((".dist-info", ".data")))
    else:
        inits = {PurePosixPath(path).parent for path in tree.paths() if path.endswith("/__init__.py")}
        roots = sorted(str(path) for path in inits if inits.isdisjoint(path.parents) and not harmless(f"{path}/"))
    own = {root: root.rpartition("/")[2] for root in roots[: MOST_PACKAGES + 1]}
    moved = {root: package for root, package in own.items() if root != package}
    try:
        if len(own) > MOST_PACKAGES:
            raise ValueError(f"more than {MOST_PACKAGES:,} Python packages")
        return Layout(packages=tuple(sorted(set(own.values()))), in_wheel=moved)
    except ValueError as error:
        raise PatchError(
            f"the archive of {source} has folders that no package has",
            where=str(error),
            hint="give another release with --ref",
        ) from error


def open_folder(path: Path, releases: Releases, source: str, version: Version) -> Opened:
    """A directory, wheel or archive as a release; raises PatchError when its version is another."""
    tree = open_tree(path)
    _check_told(releases, source, version, tree, str(path))
    return Opened(source=source, version=version, tree=tree, pinned=False)


def _check_told(releases: Releases, source: str, version: Version, tree: Tree, where: str) -> None:
    told = releases.source(source).told
    if told:
        check_told(source, told, tree, version, where)


def _tree(library: Library, release: Release) -> Tree:
    artifact = release.artifact
    intact(
        library.store,
        artifact,
        lambda path: library.reporter.say(f"{path.name} is damaged in the store: fetching it again"),
    )
    from gb10.sources.index.client import fetch_all  # noqa: PLC0415 - for a release that is opened

    return open_stored(library.store, fetch_all([artifact], library.store, library.env)[release.sha256], artifact)


def open_stored(store: Store, path: Path, artifact: Artifact) -> Tree:
    """An archive's files; a source archive is kept as a zip, in which one file is found without reading all.

    Raises PatchError for a damaged archive.
    """
    if path.suffix == ".whl":
        return open_tree(path)
    entry = store.entry("trees", artifact.sha256)
    with store.locked(f"tree-{artifact.sha256}"):
        if not is_sealed(entry / TREE):
            store.replace(entry, _repack(path))
    return Repacked(entry / TREE)


def _repack(sdist: Path) -> Callable[[Path], None]:
    def make(work: Path) -> None:
        tree = open_tree(sdist)
        with zipfile.ZipFile(work / TREE, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for path in tree.paths():
                archive.writestr(path, tree.read(path) or b"")
        seal(work / TREE)

    return make


def _ask(library: Library, releases: Releases, source: str, version: Version) -> Release:
    """The release's best file on the index, by the hash the index gives it now."""
    known = releases.source(source)
    if not known.projects:
        raise UsageError(
            f"{source} {version} is not pinned, and {source} is on no package index",
            where=f"pinned: {', '.join(known.releases)}",
            hint=f"give its files: --tree DIR --ref {version}",
        )

    from gb10.sources.index.client import open_index_session, size_of, sources  # noqa: PLC0415 - for what is not pinned
    from gb10.sources.index.pip_settings import read_settings  # noqa: PLC0415 - the same

    session = open_index_session(library.env)
    for project in known.projects:
        links = [link for place in sources(session, read_settings(library.env)) for link in place.links(project)]
        best = _best([link for link in links if version_of(link) == version])
        if best and best.sha256:
            library.reporter.say(f"{best.filename} is not pinned: taken from the index with sha256 {best.sha256[:12]}")
            return Release(filename=best.filename, sha256=best.sha256, size=size_of(session, best))
    names = ", ".join(name for name, other in releases.sources.items() if other.releases)
    raise FetchError(
        f"the package index has no {source} {version}",
        where=f"projects: {', '.join(known.projects)}",
        hint="give another release with --ref, or its files with --tree DIR --ref VERSION"
        if known.releases
        else f"look at its name and its version; sources of gb10's own: {names}",
    )


def _best(links: "list[Link]") -> "Link | None":
    """The source archive, else the wheel that an image for GB10 would take."""
    sdists = [link for link in links if link.filename.endswith(".tar.gz")]
    wheels = [link for tag in GB10_WHEEL for link in links if tag in link.filename and "x86_64" not in link.filename]
    return next(iter((*sdists, *(link for link in wheels if "win" not in link.filename))), None)


def version_of(link: "Link") -> Version | None:
    """The version in a file's name; None for what is neither a wheel nor a source archive."""
    try:
        if link.filename.endswith(".whl"):
            return parse_wheel_filename(link.filename)[1]
        return parse_sdist_filename(link.filename)[1]
    except (InvalidWheelFilename, InvalidSdistFilename):
        return None
