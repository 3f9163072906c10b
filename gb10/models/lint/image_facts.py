"""What an image's labels say to lint: the engine's release, and the patches that it has."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from gb10.core.data_root import ROOT

OURS: Final = "gb10/"
"""The names of our images, whose patches are those of this checkout."""
PATCHES: Final = re.compile(r"io\.github\.gb10\.patches\.([a-z0-9-]+)")
NUMBER: Final = re.compile(r"^(\d{4})-")
VERSION: Final = "org.opencontainers.image.version"


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageFacts:
    """``patches`` are named as in the checkout, without their titles: ``sglang/0005``."""

    release: str | None
    patches: frozenset[str]


def facts_of(labels: Mapping[str, str]) -> ImageFacts:
    """The facts of an image's labels; those of an image of another builder say nothing."""
    found = (
        f"{source[1]}/{number[1]}"
        for name, text in labels.items()
        if (source := PATCHES.fullmatch(name))
        for word in text.split()
        if (number := NUMBER.match(word))
    )
    ours = any(PATCHES.fullmatch(name) for name in labels)
    return ImageFacts(release=labels.get(VERSION) if ours else None, patches=frozenset(found))


def patches_of(container: str | None) -> frozenset[str]:
    """The patches of an image by its name: of ours all that this checkout has, of another none."""
    return _own_patches() if (container or "").startswith(OURS) else frozenset()


@cache
def _own_patches() -> frozenset[str]:
    found = ((path.parent.name, NUMBER.match(path.name)) for path in (ROOT / "patches").glob("*/[0-9]*"))
    return frozenset(f"{source}/{number[1]}" for source, number in found if number)
