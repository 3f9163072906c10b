"""What is known of releases: when they came out, what they require, what was newest then. Pure.

The facts are in recipes/doctor/releases.json, which scripts/engine_releases.py writes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from packaging.version import InvalidVersion, Version


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineRelease:
    """A release of an engine. ``newest`` has the newest releases of packages a week before it came out."""

    engine: str
    version: str
    date: str
    requires: Mapping[str, str]
    newest: Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Releases:
    """All that is known, by engine, the oldest first."""

    engines: Mapping[str, tuple[EngineRelease, ...]] = field(default_factory=dict)

    def find(self, engine: str, version: str) -> EngineRelease | None:
        """The release, or of a development version the last one before it; None for one that is older than all."""
        try:
            wanted = Version(version)
        except InvalidVersion:
            return None
        below = [one for one in self.engines.get(engine, ()) if Version(one.version) <= wanted]
        if not below or (below[-1] == self.engines[engine][-1] and Version(below[-1].version).release < wanted.release):
            return None
        return below[-1]

    def after(self, engine: str, version: str) -> EngineRelease | None:
        """The next release that is no mere repair of this one (another minor version)."""
        try:
            wanted = Version(version)
        except InvalidVersion:
            return None
        newer = (one for one in self.engines.get(engine, ()) if Version(one.version).release[:2] > wanted.release[:2])
        patch = (one for one in self.engines.get(engine, ()) if Version(one.version) > wanted)
        return next(newer, next(patch, None))


def read_releases(document: Mapping[str, Mapping[str, Mapping[str, object]]]) -> Releases:
    """The releases of the file's content."""
    engines = {}
    for engine, rows in document.items():
        found = [
            EngineRelease(
                engine=engine,
                version=version,
                date=str(row["date"]),
                requires=_texts(row["requires"]),
                newest=_texts(row["newest"]),
            )
            for version, row in rows.items()
        ]
        engines[engine] = tuple(sorted(found, key=lambda one: Version(one.version)))
    return Releases(engines=engines)


def _texts(value: object) -> dict[str, str]:
    return {str(key): str(one) for key, one in value.items()} if isinstance(value, dict) else {}
