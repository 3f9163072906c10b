"""Costs: the measured cost of each family of compiles, and how many compilers run at once.

A family is a module of a kernel set, a group of modules, a CMake target, or a program.
"""

import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from packaging.version import Version

from gb10.plan.catalog import Catalog
from gb10.plan.values import Plan, Step
from gb10.recipe.builds import ALL
from gb10.recipe.kernel_sets import COSTS, entries
from gb10.workshop import Workshop, cores, memory

UNMEASURED: Final = {"units": 1, "cpu_s": 60, "peak_mib": 1024}
NONE: Final = {"units": 0, "cpu_s": 0}
SMALL: Final = ("names", "peak_mib")
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
    found = [costs.get(name, UNMEASURED) for name in _families(plan, step)]
    return tuple(part for cost in found for part in _parts(cost))


def _parts(cost: Mapping[str, Any]) -> Iterator[Family]:
    """The small units of a family are one of their own: more of them fit into the memory."""
    small, longest = cost.get("small", NONE), cost.get("longest", {})
    if small["units"]:
        yield Family(small["units"], small["cpu_s"], small["peak_mib"] << 20)
    bounds = longest.get("unit", ""), longest.get("cpu_s", 0.0)
    yield Family(cost["units"] - small["units"], cost["cpu_s"] - small["cpu_s"], cost["peak_mib"] << 20, *bounds)


def measured(catalog: Catalog) -> Mapping[str, Mapping[str, Any]]:
    """``units``, ``cpu_s``, ``peak_mib``, ``longest`` and ``small`` by family, from recipes/kernels/costs.toml."""
    return tomllib.loads(catalog.contents[COSTS].decode())


def known_targets(catalog: Catalog, source: str) -> list[str]:
    """The CMake targets of a source that were compiled and measured before."""
    return [name for name, cost in measured(catalog).items() if cost.get("target-of") == source]


def _families(plan: Plan, step: Step) -> list[str]:
    if step.kind != "wheel":
        return [step.name]
    build = plan.recipe.wheels[step.name]
    targets = [f"{build.source}_all"] if ALL in build.targets else build.targets
    return [*targets, *map(family, entries(step.kernels or {}))]


def family(entry: Mapping[str, Any]) -> str:
    """The key of a module or group in costs.toml."""
    return str(entry.get("cost", entry["name"]))


def peaks(catalog: Catalog, plan: Plan, step: Step) -> bytes:
    """The input of inside/room.py: MiB of a family's largest process, by the folder of its objects, and of small units.

    ``other`` is for folders that have no name here: FlashInfer names the modules of a group itself.
    """
    costs, kernels = measured(catalog), step.kernels or {}
    named = {name: cost["peak_mib"] for name, cost in costs.items()}
    named |= {entry["name"]: costs.get(family(entry), UNMEASURED)["peak_mib"] for entry in kernels.get("module", ())}
    groups = [costs.get(family(entry), UNMEASURED)["peak_mib"] for entry in kernels.get("group", ())]
    other = max(groups) if groups else max(one.peak for one in kernel_cost(catalog, plan, step)) >> 20
    small = {name: {word: cost["small"][word] for word in SMALL} for name, cost in costs.items() if "small" in cost}
    return json.dumps({"peaks": named, "small": small, "other": other}, indent=1).encode()


def module_peaks(catalog: Catalog) -> bytes:
    """The same for modules that an engine compiles in its rehearsal, where no plan knows which."""
    named = {name: cost["peak_mib"] for name, cost in measured(catalog).items()}
    return json.dumps({"peaks": named, "small": {}, "other": UNMEASURED["peak_mib"]}, indent=1).encode()


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
        Critical(sum(one.cpu_seconds / max(1, available // one.peak) for one in families), "memory"),
        Critical(max((one.longest_seconds for one in families), default=0.0), "longest unit"),
    )
    return max(bounds, key=lambda one: one.seconds) if families else Critical()


def jobs(env: Mapping[str, str]) -> int:
    """Compile jobs at most: GB10_JOBS, else this machine's cores."""
    return int(env.get("GB10_JOBS") or cores())


def asked_jobs(shop: Workshop, plan: Plan, step: Step) -> str:
    """The job count as a shell expression: only the compile stage knows the cores of its machine.

    Without a launcher that delays units until memory is free, this machine's memory limits the count.
    """
    if shop.env.get("GB10_JOBS"):
        return shop.env["GB10_JOBS"]
    if has_launcher(plan, step):
        return "$(nproc)"
    largest = max(one.peak for one in kernel_cost(shop.catalog, plan, step))
    return str(max(1, min(cores(), memory() // largest)))


def has_launcher(plan: Plan, step: Step) -> bool:
    """Whether each compiler of a step is started by inside/launch.py."""
    build = plan.recipe.wheels.get(step.name) if step.kind == "wheel" else None
    if build is None or build.method != "aot":
        return True
    release = (plan.recipe.sources[build.source].sdist or "").partition("==")[2]
    return not release or Version(release) >= LAUNCHERS_SINCE
