"""Costs: the measured cost of each family of compiles, how many run at once, and how fast this machine is."""

import json
import platform
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

from packaging.version import Version

from gb10.core.files import digest
from gb10.core.forecast import Speed
from gb10.core.store import Store
from gb10.image.context import Context, cores, memory
from gb10.image.plan.catalog import Catalog
from gb10.image.plan.values import Plan, Step
from gb10.image.recipe.image_recipe import ALL, WHOLE
from gb10.image.recipe.kernel_sets import entries

UNMEASURED: Final = {"units": 1, "cpu_s": 60, "peak_mib": 1024}
WHOLE_PEAK: Final = 2560
"""MiB of a compiler of a package that nobody measured: a file with torch's headers takes 2,070 (warp-rnnt, x86-64)."""
LAUNCHERS_SINCE: Final = Version("0.7")
"""The first release line of FlashInfer with a launcher in its ninja files; 0.6.7 has none."""


@dataclass(frozen=True, slots=True)
class Family:
    """Units, CPU seconds of all of them, bytes of the largest process; the longest unit, if it was measured."""

    units: int
    cpu_seconds: float
    peak: int
    longest: str = ""
    longest_seconds: float = 0.0


def kernel_cost(catalog: Catalog, plan: Plan, step: Step) -> tuple[Family, ...]:
    """The families that a wheel or a program compiles. A family without a measurement counts as UNMEASURED."""
    costs = measured(catalog)
    names = [*target_families(plan, step), *map(family, entries(step.kernels or {}))]
    unmeasured = {**UNMEASURED, "peak_mib": WHOLE_PEAK} if _is_whole(plan, step) else UNMEASURED
    return tuple(part for name in names for part in _parts(name, costs.get(name, unmeasured)))


def _is_whole(plan: Plan, step: Step) -> bool:
    return step.kind == "wheel" and plan.recipe.wheels[step.name].method in WHOLE


def _parts(module: str, cost: Mapping[str, Any]) -> Iterator[Family]:
    """Units that were measured one by one are families of their own: more of the small ones fit into the memory."""
    for name, unit in cost.get("each", {}).items():
        label = f"{module}/{name.partition('.')[0]}"
        yield Family(1, unit["cpu_s"], unit["peak_mib"] << 20, label, unit["cpu_s"])
    if "each" not in cost:
        longest = cost.get("longest", {"unit": "", "cpu_s": 0.0})
        yield Family(cost["units"], cost["cpu_s"], cost["peak_mib"] << 20, longest["unit"], longest["cpu_s"])


def measured(catalog: Catalog) -> Mapping[str, Mapping[str, Any]]:
    """``units``, ``cpu_s``, ``peak_mib`` and ``longest`` by family, from recipes/kernels/costs.toml.

    Of a family in units.toml, ``each`` has ``cpu_s`` and ``peak_mib`` by object; it has no ``longest``.
    """
    families, each = catalog.kernel_costs
    return {**families, **{name: {**families.get(name, {}), **_summed(units)} for name, units in each.items()}}


def _summed(rows: Mapping[str, tuple[float, int]]) -> dict[str, Any]:
    each = {name: {"cpu_s": seconds, "peak_mib": mib} for name, (seconds, mib) in rows.items()}
    return {
        "each": each,
        "units": len(each),
        "cpu_s": sum(unit["cpu_s"] for unit in each.values()),
        "peak_mib": max(unit["peak_mib"] for unit in each.values()),
    }


def known_targets(catalog: Catalog, source: str) -> list[str]:
    """The CMake targets of a source that were compiled and measured before."""
    return [name for name, cost in measured(catalog).items() if cost.get("target-of") == source]


def target_families(plan: Plan, step: Step) -> list[str]:
    """The families that no kernel set names: a program, CMake targets, or a project that is compiled whole."""
    if step.kind != "wheel":
        return [step.name]
    build = plan.recipe.wheels[step.name]
    if build.method in WHOLE:
        return [plan.recipe.project(build.source)]
    return [f"{build.source}_all"] if ALL in build.targets else list(build.targets)


def family(entry: Mapping[str, Any]) -> str:
    """The key of a module or group in costs.toml."""
    return str(entry.get("cost", entry["name"]))


def peaks(catalog: Catalog, plan: Plan, step: Step) -> bytes:
    """The input of compile_slots.py and unit_order.py: MiB of a family's largest process, by the folder of its objects.

    ``units`` has what was measured of single objects, where a launcher holds compilers back. ``other`` is for folders
    that have no name here: FlashInfer names the modules of a group itself. A project that is compiled whole has its
    own folders, which say nothing: one may be called as a module of FlashInfer is.
    """
    costs, kernels = {} if _is_whole(plan, step) else measured(catalog), step.kernels or {}
    modules = {entry["name"]: costs.get(family(entry), UNMEASURED) for entry in kernels.get("module", ())}
    groups = [costs.get(family(entry), UNMEASURED)["peak_mib"] for entry in kernels.get("group", ())]
    other = max(groups) if groups else max(one.peak for one in kernel_cost(catalog, plan, step)) >> 20
    found = _peaks_document({**costs, **modules}, other)
    return json.dumps(found if has_launcher(plan, step) else {**found, "units": {}}, indent=1).encode()


def module_peaks(catalog: Catalog) -> bytes:
    """The same for modules that an engine compiles in its rehearsal, where no plan knows which."""
    return json.dumps(_peaks_document(measured(catalog), UNMEASURED["peak_mib"]), indent=1).encode()


def _peaks_document(costs: Mapping[str, Mapping[str, Any]], other: int) -> dict[str, Any]:
    named = {name: cost["peak_mib"] for name, cost in costs.items()}
    units = {name: cost["each"] for name, cost in costs.items() if "each" in cost}
    return {"peaks": named, "units": units, "other": other}


@dataclass(frozen=True, slots=True)
class Critical:
    """Seconds that a compile takes at least, and what they are: the cores' work, the memory's, or the longest unit."""

    seconds: float = 0.0
    bound: Literal["", "cores", "memory", "longest unit"] = ""


def critical_path(env: Mapping[str, str], cost: Iterable[Family]) -> Critical:
    """What bounds a compile here whose units share this machine: its wheels are compiled at the same time."""
    families, available = tuple(cost), memory()
    bounds = (
        Critical(sum(one.cpu_seconds for one in families) / jobs(env), "cores"),
        Critical(sum(one.cpu_seconds * min(one.peak, available) for one in families) / available, "memory"),
        Critical(max((one.longest_seconds for one in families), default=0.0), "longest unit"),
    )
    return max(bounds, key=lambda one: one.seconds) if families else Critical()


def jobs(env: Mapping[str, str]) -> int:
    """Compile jobs at most: GB10_JOBS, else this machine's cores."""
    return int(env.get("GB10_JOBS") or cores())


def jobs_expression(ctx: Context, plan: Plan, step: Step) -> str:
    """The job count as a shell expression: only the compile stage knows the cores of its machine.

    Without a launcher that delays units until memory is free, this machine's memory limits the count.
    """
    if ctx.env.get("GB10_JOBS"):
        return ctx.env["GB10_JOBS"]
    if has_launcher(plan, step):
        return "$(nproc)"
    largest = max(one.peak for one in kernel_cost(ctx.catalog, plan, step))
    return str(max(1, min(cores(), memory() // largest)))


def has_launcher(plan: Plan, step: Step) -> bool:
    """Whether each compiler of a step is started by inside/compile/launch.py."""
    build = plan.recipe.wheels.get(step.name) if step.kind == "wheel" else None
    if build is None or build.method != "aot":
        return True
    release = (plan.recipe.sources[build.source].sdist or "").partition("==")[2]
    return not release or Version(release) >= LAUNCHERS_SINCE


SECTION: Final = "rates"
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


def known_speed(ctx: Context) -> tuple[Speed, str]:
    """How fast this machine is by its last builds, and in words whose figures the estimates are."""
    kept = _read(ctx.store, _machine(ctx)).rates
    if not kept:
        return Speed(), REFERENCE
    from statistics import median  # noqa: PLC0415 - for a machine that has built

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
        found = json.loads(_path(store, machine).read_text(encoding="utf-8"))
        if (found["schema"], found["machine"]) != (SCHEMA, machine):
            return Rates(machine=machine)
        builds = [Rate(**{name: float(value) for name, value in one.items()}) for one in found["rates"]]
    except (OSError, ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return Rates(machine=machine)
    likely = tuple(one for one in builds if _is_likely(one.factor, one.held) and one.seconds > 0)
    return Rates(machine=machine, rates=likely[-MOST:])


def _path(store: Store, machine: str) -> Path:
    return store.root / SECTION / f"{digest(machine)[:16]}.json"


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
    arm = (sorted({value for name, value in rows if name == wanted}) for wanted in ("CPU implementer", "CPU part"))
    numbers = " ".join(value for values in arm for value in values)
    return next((value for name, value in rows if name == "model name"), numbers) or "unknown"
