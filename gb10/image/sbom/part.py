"""A part of an image, and the bill of all parts: the values."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Kind = Literal["image", "deb", "wheel", "built", "source", "nested", "patch", "mod", "overlay"]
Verb = Literal["CONTAINS", "GENERATED_FROM", "PATCH_APPLIED"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """One part. ``id`` names it within the bill; ``layer`` is the step whose layer holds it, if one does."""

    id: str
    kind: Kind
    name: str
    version: str = ""
    filename: str = ""
    sha256: str = ""
    size: int = 0
    purl: str = ""
    git: str = ""
    """The repository and the commit or tag, for what no index has."""
    licence: str = ""
    layer: str = ""
    comment: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Bill:
    """The parts, the image first, and how they belong together: (from, verb, to)."""

    parts: tuple[Part, ...]
    relations: tuple[tuple[str, Verb, str], ...]

    def of_kind(self, kind: Kind) -> Iterator[Part]:
        """The parts of one kind, by name."""
        return iter(sorted((part for part in self.parts if part.kind == kind), key=lambda part: part.name))
