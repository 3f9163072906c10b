"""``patches/releases.lock.json``: the releases that every patch is held against, each file by sha256. Pure."""

from typing import Literal

from packaging.version import Version
from pydantic import ValidationError

from gb10.artifact import Artifact
from gb10.errors import UsageError
from gb10.schema import Filename, Model, Name, Sha256, Size

PINS = "releases.lock.json"


class Release(Model):
    """The one file that stands for a release: its source archive, else its wheel for GB10. ``size`` in bytes."""

    filename: Filename
    sha256: Sha256
    size: Size

    @property
    def artifact(self) -> Artifact:
        """The file as downloads name it."""
        return Artifact(self.filename, self.sha256, self.size)


class SourceReleases(Model):
    """A source's projects on the package index, those asked first for a release first, and its pinned releases."""

    projects: tuple[Name, ...]
    releases: dict[str, Release]

    def pinned(self, version: Version) -> Release | None:
        """The pin of a release, however it is written: 0.33 is 0.33.0."""
        return next((release for text, release in self.releases.items() if Version(text) == version), None)


class Releases(Model):
    """Every source."""

    version: Literal[1] = 1
    sources: dict[Name, SourceReleases]

    def source(self, name: str) -> SourceReleases:
        """One source; raises UsageError that lists them."""
        if name not in self.sources:
            raise UsageError(f"no releases of a source {name!r}", hint=f"sources: {', '.join(self.sources)}")
        return self.sources[name]


def parse_releases(text: str) -> Releases:
    """The pins; raises UsageError."""
    try:
        return Releases.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"patches/{PINS} is not one of ours", where=f"{place}: {first['msg']}") from error
