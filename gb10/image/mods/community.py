"""Mods of the community by name: which of ours does the same, and which an image of ours does not need."""

from pathlib import Path
from typing import Final, Self

from packaging.specifiers import SpecifierSet
from packaging.version import Version
from pydantic import Field, model_validator

from gb10.core.document import parse_document
from gb10.core.fields import Model, Name, Releases, Sentence

TABLE: Final = "community.yaml"


class CommunityMod(Model):
    """``ours`` is a mod of the checkout; ``why``: no image needs it, or none of these releases."""

    name: str
    ours: Name | None = None
    engines: dict[Name, Releases] = Field(default_factory=dict)
    why: Sentence | None = None

    @model_validator(mode="after")
    def _one_answer(self) -> Self:
        if (self.ours is None) == (self.why is None):
            raise ValueError("a mod of the community has exactly one of ours, why")
        return self

    def holds(self, engine: str, version: str) -> bool:
        """Whether the answer is for this release; without ``engines`` it is for all."""
        releases = self.engines.get(engine)
        if releases is None:
            return not self.engines
        return SpecifierSet(releases, prereleases=True).contains(Version(Version(version).public))


class CommunityTable(Model):
    """``mods/community.yaml``."""

    mods: tuple[CommunityMod, ...]


def community_mods(root: Path) -> dict[str, CommunityMod]:
    """The table of the checkout's ``mods/`` by name; raises UsageError for one that is not valid."""
    path = root / TABLE
    table = parse_document(
        path.read_text(encoding="utf-8"), CommunityTable, where=f"mods/{TABLE}", what="table of mods"
    )
    return {mod.name: mod for mod in table.mods}
