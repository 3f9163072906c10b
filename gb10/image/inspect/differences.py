"""What differs between two images: packages, patches, mods, GPU code, settings, the bytes of a pull. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gb10.image.inspect.summary import ImageSummary, codes_of

SCHEMA: Final = "gb10/show-diff/v1"
Change = tuple[str, str, str]
"""A name, what it is in the first image, and what in the second; empty where it is not there."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Differences:
    """From one image to another; ``shared`` layers of the second are in the first, the others have ``new`` bytes."""

    one: str
    two: str
    size: tuple[int, int]
    shared: int
    moved: int
    new: int
    sections: Mapping[str, tuple[Change, ...]]

    @property
    def same(self) -> bool:
        """Whether nothing differs that is looked at."""
        return not self.moved and not any(self.sections.values())


def differences(one: ImageSummary, two: ImageSummary) -> Differences:
    """What changed from the first image to the second."""
    digests = {layer.digest for layer in one.layers}
    moved = [layer for layer in two.layers if layer.digest not in digests]
    sections = {
        "packages": changes(one.packages, two.packages),
        "Debian packages": changes(one.debs, two.debs),
        "patches": changes(_patches(one), _patches(two)),
        "mods": changes(_mods(one), _mods(two)),
        "slimming rules": changes(_rules(one), _rules(two)),
        "best fits of libraries": changes(_fits(one), _fits(two)),
        "pieces of GPU code": changes(_codes(one), _codes(two)),
        "settings": changes(_settings(one), _settings(two)),
    }
    return Differences(
        one=one.reference,
        two=two.reference,
        size=(one.size, two.size),
        shared=len(two.layers) - len(moved),
        moved=len(moved),
        new=sum(layer.size for layer in moved),
        sections=sections,
    )


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[Change, ...]:
    """What differs between two mappings, by name."""
    names = sorted(before.keys() | after.keys())
    rows = ((name, before.get(name, ""), after.get(name, "")) for name in names)
    return tuple(row for row in rows if row[1] != row[2])


def document(found: Differences) -> dict[str, Any]:
    """The differences as data, schema gb10/show-diff/v1."""
    return {
        "schema": SCHEMA,
        "one": found.one,
        "two": found.two,
        "size": list(found.size),
        "layers": {"shared": found.shared, "new": found.moved, "bytes": found.new},
        "changes": {
            name: [{"name": row[0], "one": row[1], "two": row[2]} for row in rows]
            for name, rows in found.sections.items()
        },
    }


def _patches(one: ImageSummary) -> dict[str, str]:
    return {f"{patch.source}/{patch.name}": patch.sha256[:12] for patch in one.patches}


def _mods(one: ImageSummary) -> dict[str, str]:
    return {mod.name: mod.sha256[:12] for mod in one.mods}


def _rules(one: ImageSummary) -> dict[str, str]:
    return {rule.name: f"{rule.mb:,.1f} MB less" for rule in one.plan.slim} if one.plan else {}


def _fits(one: ImageSummary) -> dict[str, str]:
    return {str(fit): str(count) for fit, count in one.verdict.counts.items() if count} if one.verdict else {}


def _codes(one: ImageSummary) -> dict[str, str]:
    return {code: str(count) for code, count in codes_of(one).items()}


def _settings(one: ImageSummary) -> dict[str, str]:
    pairs: Iterable[tuple[str, str, str]] = (entry.partition("=") for entry in one.environment)
    plain = {"user": one.user or "root", "platform": one.platform}
    return plain | {f"ENV {name}": value for name, _, value in pairs}
