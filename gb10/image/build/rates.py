"""Rates: how long this machine's compilers took before against the estimates, kept in the store by its processor."""

import json
import platform
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Final

from pydantic import TypeAdapter, ValidationError

from gb10.core.files import digest
from gb10.core.forecast import Speed
from gb10.core.store import Store
from gb10.image.context import Context, cores

ROOM: Final = "rates"
SCHEMA: Final = "gb10/rates/v1"
REFERENCE: Final = "another machine: two x86-64 cores, idle"
"""Where the figures of recipes/kernels and of gb10/image/build/estimate.py were measured."""
ENOUGH: Final = 60.0
"""Estimated CPU seconds from which on a build says how fast a machine is."""
MOST: Final = 5
"""Builds that are kept: their median counts."""
LEAST_FACTOR, MOST_FACTOR = 0.2, 10.0
"""What is beyond was no compile of this machine's: a cache, a clock that was set, a machine that slept."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rate:
    """What one build showed."""

    factor: float
    held: float
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Rates:
    """What is kept of a machine, the last build last."""

    machine: str
    rates: tuple[Rate, ...] = ()
    schema: str = SCHEMA


RECORD: Final = TypeAdapter(Rates)


def known_speed(ctx: Context) -> tuple[Speed, str]:
    """How fast this machine is by its last builds, and in words whose figures the estimates are."""
    kept = _read(ctx.store, _machine(ctx)).rates
    if not kept:
        return Speed(), REFERENCE
    factor, held = median(one.factor for one in kept), median(one.held for one in kept)
    builds = "the last build" if len(kept) == 1 else f"the last {len(kept)} builds"
    speed = Speed(factor, sum(one.seconds for one in kept), own=True, held=held)
    return speed, f"this machine: {builds} took {speed.whole:.1f} times as long as on two idle x86-64 cores"


def keep_speed(ctx: Context) -> None:
    """Keep how fast the units were that the command's forecast has seen, if they were enough."""
    seen = ctx.forecast.speed()
    if seen.seconds < ENOUGH or not _is_likely(seen.factor, seen.held):
        return
    machine = _machine(ctx)
    kept = (*_read(ctx.store, machine).rates, Rate(factor=seen.factor, held=seen.held, seconds=seen.seconds))
    text = json.dumps(asdict(Rates(machine=machine, rates=kept[-MOST:])), indent=1)
    ctx.store.write_text(_path(ctx.store, machine), f"{text}\n")


def _is_likely(factor: float, held: float) -> bool:
    return all(LEAST_FACTOR <= one <= MOST_FACTOR for one in (factor, held, factor * held))


def _read(store: Store, machine: str) -> Rates:
    """What is kept of a machine; what cannot be read, or cannot be, is passed over."""
    try:
        found = RECORD.validate_json(_path(store, machine).read_text(encoding="utf-8"))
    except (OSError, ValidationError, ValueError):
        return Rates(machine=machine)
    if (found.schema, found.machine) != (SCHEMA, machine):
        return Rates(machine=machine)
    likely = tuple(one for one in found.rates if _is_likely(one.factor, one.held) and one.seconds > 0)
    return Rates(machine=machine, rates=likely[-MOST:])


def _path(store: Store, machine: str) -> Path:
    return store.root / ROOM / f"{digest(machine)[:16]}.json"


def _machine(ctx: Context) -> str:
    """The processor and its cores, as far as this command may use them; another's, where a builder builds."""
    if ctx.builder:
        return f"builder {ctx.builder}"
    return f"{platform.machine()} {processor()}, {cores()} cores"


def processor(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The model's name on x86-64; on Arm, which has none, the numbers of the maker and of the kinds of cores."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return "unknown"
    rows = [(name.strip(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
    return next((value for name, value in rows if name == "model name"), " ".join(_arm(rows))) or "unknown"


def _arm(rows: list[tuple[str, str]]) -> Iterator[str]:
    for wanted in ("CPU implementer", "CPU part"):
        yield from sorted({value for name, value in rows if name == wanted})
