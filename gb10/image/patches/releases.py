"""``patches/releases.lock.json``: each source's layout, and the releases that its patches are checked against."""

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal, Self

from packaging.version import Version
from pydantic import AfterValidator, Field, ValidationError, model_validator

from gb10.core.fields import Filename, Folder, Model, Name, Sha256, Size
from gb10.core.files import Artifact
from gb10.errors import PatchError, UsageError
from gb10.image.patches.record import Regex, check_glob
from gb10.image.patches.source_tree import Tree
from gb10.image.recipe.image_recipe import Layout

PINS = "releases.lock.json"


class Release(Model):
    """The one file that stands for a release: its source archive, else its wheel for GB10. ``size`` in bytes.

    ``folder``: where the release lies in the source archive of another source, which bundles it. ``also``: the sha256
    of other archives of that source whose folder has the same files.
    """

    filename: Filename
    sha256: Sha256
    size: Size
    folder: Annotated[str, AfterValidator(check_glob)] | None = None
    also: tuple[Sha256, ...] = ()

    @property
    def artifact(self) -> Artifact:
        """The file as downloads name it."""
        return Artifact(self.filename, self.sha256, self.size)


class Told(Model):
    """Where a tree says its own version: ``number`` matches once in ``file``, and its groups are the parts."""

    file: Annotated[str, AfterValidator(check_glob)]
    number: Regex


class SourceReleases(Model):
    """A source's projects on the package index in the order of lookup, its layout and its pinned releases.

    A source that is on no index has no projects; its releases are folders of others' archives, and ``told`` is how
    any tree of it is held against the release that it stands for. ``owns``: folders that no other source has, by
    which a diff shows that it changes this one, beside the packages of its layout.
    """

    projects: tuple[Name, ...]
    layout: Layout = Layout()
    owns: tuple[Folder, ...] = ()
    told: Told | None = None
    releases: Annotated[dict[str, Release], Field(min_length=1)]

    @model_validator(mode="after")
    def _bundled(self) -> Self:
        if self.told is None and any(release.folder for release in self.releases.values()):
            raise ValueError("a release in a folder needs `told`: nothing else shows which release lies there")
        return self

    def pinned(self, version: Version) -> Release | None:
        """The pin of a release, however it is written: 0.33 is 0.33.0."""
        return next((release for text, release in self.releases.items() if Version(text) == version), None)

    def bundled(self, sha256: str) -> tuple[Version, str] | None:
        """The release that an archive bundles, and its folder there; None when no pin lists it."""
        found = ((text, one.folder) for text, one in self.releases.items() if sha256 in (one.sha256, *one.also))
        return next(((Version(text), folder) for text, folder in found if folder), None)


class Releases(Model):
    """Every source."""

    version: Literal[1] = 1
    sources: dict[Name, SourceReleases]

    @model_validator(mode="after")
    def _one_pin(self) -> Self:
        """An archive that bundles a release is pinned once, as a release of its own source."""
        every = [release for source in self.sources.values() for release in source.releases.values()]
        own = {release.artifact for release in every if release.folder is None}
        lost = next((release for release in every if release.folder and release.artifact not in own), None)
        if lost:
            raise ValueError(f"{lost.filename} is no pinned release of the source that bundles {lost.folder}")
        strange = {sha256 for release in every for sha256 in release.also} - {artifact.sha256 for artifact in own}
        if strange:
            raise ValueError(f"also names {min(strange)}, which is no pinned release")
        return self

    @model_validator(mode="after")
    def _one_owner(self) -> Self:
        """The source that owns the package which a diff changes."""
        packages = [package for source in self.sources.values() for package in source.layout.packages]
        twice = next((package for package in packages if packages.count(package) > 1), None)
        if twice:
            raise ValueError(f"two sources have the package {twice}")
        return self

    @property
    def layouts(self) -> dict[str, Layout]:
        """The layout of each source."""
        return {name: source.layout for name, source in self.sources.items()}

    def with_own(self, projects: Mapping[str, str]) -> "Releases":
        """With sources of a recipe's own, by name, each with its project: not pinned, patched as their archives are."""
        own = {
            name: SourceReleases.model_construct(projects=(project,), releases={})
            for name, project in projects.items()
            if name not in self.sources
        }
        return self.model_copy(update={"sources": {**self.sources, **own}}) if own else self

    def with_layouts(self, layouts: Mapping[str, Layout]) -> "Releases":
        """With what the trees of some sources showed of their folders."""
        shown = {name: self.sources[name].model_copy(update={"layout": layout}) for name, layout in layouts.items()}
        return self.model_copy(update={"sources": {**self.sources, **shown}})

    def source_of(self, project: str) -> str | None:
        """The source that a name means: its own, or that of one of its projects on the package index."""
        named = (name for name, source in self.sources.items() if project in (name, *source.projects))
        return next(named, None)

    def source(self, name: str) -> SourceReleases:
        """One source; raises UsageError that lists them."""
        if name not in self.sources:
            raise UsageError(
                f"unknown source {name}", where=f"patches/{PINS}", hint=f"known: {', '.join(self.sources)}"
            )
        return self.sources[name]


def load_releases(root: Path) -> Releases:
    """The pins beside the series."""
    return parse_releases((root / PINS).read_text(encoding="utf-8"))


@lru_cache(maxsize=4)
def parse_releases(text: str) -> Releases:
    """The pins; raises UsageError."""
    try:
        return Releases.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"patches/{PINS} is not one of ours", where=f"{place}: {first['msg']}") from error


def told_version(source: str, told: Told, tree: Tree, where: str) -> Version:
    """The version in a tree's own file; raises PatchError when there is none, or several."""
    content = (tree.read(told.file) or b"").decode("utf-8", "replace")
    found = list(re.finditer(told.number, content, re.MULTILINE))
    if len(found) != 1:
        what = "states several versions" if found else "states no version"
        raise PatchError(
            f"no {source} tree: {told.file} {what}", where=where, hint=f"give a folder whose {told.file} is upstream's"
        )
    return Version(".".join(found[0].groups()))


def check_told(source: str, told: Told, tree: Tree, version: Version, where: str) -> None:
    """Raise PatchError for a tree that is of another version than the one it is to stand for."""
    found = told_version(source, told, tree, where)
    if found != Version(version.public):
        raise PatchError(
            f"stale tree: {told.file} states {source} {found}, expected {version}",
            where=where,
            hint=f"take the tree of {version}, or name it {found}",
        )
