"""What a build did, kept in the store: its tasks with times, which steps were cached, the layers that it made."""

import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter, ValidationError

from gb10.core.reporter import Timing
from gb10.core.store import Store
from gb10.image.build.build_usage import BuildUsage
from gb10.image.build.image_build import ImageBuild, Verified
from gb10.image.inspect.local import local_layers

SECTION: Final = "builds"
SCHEMA: Final = "gb10/build/v1"


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """A step of the plan, whether it was cached, and the CPU seconds of its compilers, if it has some."""

    name: str
    kind: str
    hit: bool
    cpu: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Build:
    """One build; ``ended`` is a Unix time, times of ``tasks`` are seconds from its start."""

    key: str
    tag: str
    digest: str
    size: int
    ended: float
    cores: int
    tasks: tuple[Timing, ...]
    steps: tuple[Step, ...]
    layers: Mapping[str, int]
    """Bytes by the layer's digest."""
    usage: BuildUsage | None = None
    """Where its time went; None for a build without ``--timings``."""
    schema: str = SCHEMA


RECORD: Final = TypeAdapter(Build)


def keep_build(store: Store, build: Build) -> None:
    """Keep a build; one of the same image replaces it."""
    text = json.dumps(asdict(build), indent=1)
    store.write_text(_path(store, build.key), f"{text}\n")


def keep_image_build(build: ImageBuild, verified: Verified, usage: BuildUsage | None = None) -> None:
    """Keep what a build just did."""
    ctx, cached = build.ctx, build.status().cached
    steps = (
        Step(name=step.name, kind=step.kind, hit=cached[step.name], cpu=cpu_seconds(ctx.store, step.key))
        for step in build.plan.steps
    )
    log = Build(
        key=build.plan.key,
        tag=verified.tags[0],
        digest=verified.digest,
        size=verified.size,
        ended=time.time(),
        cores=os.cpu_count() or 1,
        tasks=tuple(ctx.reporter.timings),
        steps=tuple(steps),
        layers={layer.digest: layer.size for layer in local_layers(ctx, verified.id)},
        usage=usage,
    )
    keep_build(ctx.store, log)


def saved_builds(store: Store) -> list[Build]:
    """The builds that are kept, the last one first; what cannot be read is left out."""
    found = [_read(path.read_text(encoding="utf-8")) for path in sorted((store.root / SECTION).glob("*.json"))]
    return sorted((build for build in found if build), key=lambda build: -build.ended)


def saved_build(store: Store, key: str) -> Build | None:
    """The build that made the image of a plan's key, if one is kept and can be read."""
    path = _path(store, key)
    return _read(path.read_text(encoding="utf-8")) if path.is_file() else None


def cpu_seconds(store: Store, key: str) -> float:
    """CPU seconds of a compiled wheel's units, as its compile stage measured them; 0 without."""
    path = store.entry("wheels", key) / "measured.json"
    try:
        rows: Mapping[str, Mapping[str, float]] = json.loads(path.read_text(encoding="utf-8"))
        return sum(float(row.get("cpu_s", 0)) for row in rows.values())
    except (OSError, ValueError, AttributeError):
        return 0.0


def _path(store: Store, key: str) -> Path:
    return store.root / SECTION / f"{key[:16]}.json"


def _read(text: str) -> Build | None:
    try:
        found = RECORD.validate_json(text)
    except ValidationError:
        return None
    return found if found.schema == SCHEMA else None
