"""Which wheels a Debian suite on an architecture can load, best first. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import parse_wheel_filename

from gb10.core.fields import Architecture
from gb10.core.machine import MACHINES, glibc, uv_platform

OLDEST: Final[dict[Architecture, int]] = {"amd64": 5, "arm64": 17}
ALIASES: Final = {5: "manylinux1", 12: "manylinux2010", 17: "manylinux2014"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Platform:
    """A CPython (``3.13``) on an architecture, with glibc 2.``glibc``."""

    python: str
    architecture: Architecture
    glibc: int

    @property
    def uv_name(self) -> str:
        """The platform as ``uv --python-platform`` spells it."""
        return uv_platform(self.architecture, self.glibc)

    def tags(self) -> Iterator[Tag]:
        """Every tag that it can load, best first, in the order of packaging.tags."""
        major, minor = (int(part) for part in self.python.split("."))
        platforms = tuple(self._platforms())
        yield from cpython_tags((major, minor), [f"cp{major}{minor}"], platforms)
        yield from compatible_tags((major, minor), f"cp{major}{minor}", platforms)

    def _platforms(self) -> Iterator[str]:
        machine = MACHINES[self.architecture]
        yield f"linux_{machine}"
        for minor in range(self.glibc, OLDEST[self.architecture] - 1, -1):
            yield f"manylinux_2_{minor}_{machine}"
            if minor in ALIASES:
                yield f"{ALIASES[minor]}_{machine}"


def platform_of(suite: str, python: str, architecture: Architecture) -> Platform:
    """The platform that a suite gives; raises UsageError for a suite with an unknown glibc."""
    return Platform(python=python, architecture=architecture, glibc=glibc(suite))


def best_wheel(filenames: Iterable[str], platform: Platform) -> str | None:
    """The wheel with the best tag, then highest build number, then name; None when no wheel can be loaded."""
    ranks = {tag: rank for rank, tag in enumerate(platform.tags())}
    candidates = []
    for filename in filenames:
        _, _, build, tags = parse_wheel_filename(filename)
        found = [ranks[tag] for tag in tags if tag in ranks]
        if found:
            candidates.append((-min(found), build, filename))
    return max(candidates)[2] if candidates else None
