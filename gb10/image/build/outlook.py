"""Outlook: what a command is about to do as a forecast: compiles, downloads, layers, in the order in which they run."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from gb10.containers.connection import Engine
from gb10.core.compilers_seen import compilers_seen
from gb10.core.fetch import stored
from gb10.core.forecast import Forecast
from gb10.core.work_state import Part, Unit
from gb10.errors import UsageError
from gb10.image.build.built import one_by_one
from gb10.image.build.costs import UNMEASURED, family, jobs, measured, target_families
from gb10.image.build.estimate import (
    COMPILED,
    DOWNLOAD_RATE,
    EXPORT_RATE,
    INSTALL_RATE,
    MOD_SECONDS,
    REHEARSAL_SECONDS,
    ROOTFS_SECONDS,
    unpacked,
)
from gb10.image.build.rates import known_speed
from gb10.image.context import Context, cores
from gb10.image.plan.catalog import Catalog
from gb10.image.plan.dag import torch_problem
from gb10.image.plan.values import Plan, Step
from gb10.image.recipe.kernel_sets import entries
from gb10.sources.debian.mirror import mirror_url

DOWNLOAD: Final = "downloads"
TOOLS: Final = "tools"
UPSTREAM: Final = "upstream's layers"
ASSEMBLY: Final = "layers and proof"


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a running task says of its own part, and of all work."""

    forecast: Forecast

    def share(self) -> str:
        """Of all work: what each part is of it would say little."""
        return f"{self.forecast.share() * 100:.0f} % of all work"

    def left(self) -> str:
        """Until all is done."""
        return self.forecast.said()


def outlook(ctx: Context, part: str) -> Outlook | None:
    """What a task shows; nothing where the command made no forecast of it."""
    return Outlook(ctx.forecast) if ctx.forecast.knows(part) else None


def with_forecast(ctx: Context, plan: Plan, there: Mapping[str, bool], engine: Engine | None) -> Context:
    """The context with a forecast of the steps that are not there."""
    absent = [step for step in plan.steps if not there[step.name]]
    speed, _ = known_speed(ctx)
    parts = [*_compiles(ctx, plan, absent), *_rest(ctx, plan, absent, alone=one_by_one(ctx, engine))]
    look = None if ctx.builder else compilers_seen
    return replace(ctx, forecast=Forecast(parts, cores=cores(), jobs=jobs(ctx.env), speed=speed, look=look))


def _compiles(ctx: Context, plan: Plan, absent: Collection[Step]) -> Iterator[Part]:
    compiled = [step for step in absent if step.kind in COMPILED]
    if compiled:
        yield Part(name=TOOLS, units=(Unit(TOOLS, plan.step("tools").download / INSTALL_RATE, cores()),))
    for step in compiled:
        units = tuple(compile_units(ctx.catalog, plan, step))
        yield Part(name=step.name, units=units, pooled=True, after=(TOOLS,))


def _rest(ctx: Context, plan: Plan, absent: Collection[Step], *, alone: bool) -> Iterator[Part]:
    files = {file.sha256: file for step in absent if step.kind not in COMPILED for file in step.reads}
    size = sum(file.size for file in files.values() if not stored(ctx.store, file).exists())
    if size and any(step.kind == "image" for step in absent):
        yield Part(name=DOWNLOAD, units=(Unit(DOWNLOAD, size / DOWNLOAD_RATE, 0),))
    bases = [Unit(step.name, ROOTFS_SECONDS) for step in absent if step.kind == "rootfs"]
    locked = [step for step in absent if step.kind == "layer" and step.files]
    layers = [*bases, *(Unit(step.name, step.download / INSTALL_RATE, cores()) for step in locked)]
    compiling = any(step.kind in COMPILED for step in absent)
    ahead = layers if alone or compiling else []  # else they are made in the image's own solve
    if ahead and any(step.kind == "image" for step in absent):
        yield Part(name=UPSTREAM, units=tuple(ahead), after=(DOWNLOAD,))
    own = tuple(_assembly(plan, absent))
    if own:
        before = (*(step.name for step in absent if step.kind in COMPILED), DOWNLOAD, UPSTREAM)
        yield Part(name=ASSEMBLY, units=(*([] if ahead else layers), *own), after=before)


def _assembly(plan: Plan, absent: Collection[Step]) -> Iterator[Unit]:
    for step in absent:
        if step.kind == "mod":
            yield Unit(step.name, MOD_SECONDS)
        elif step.kind == "rehearsal":
            yield Unit(step.name, REHEARSAL_SECONDS + step.download / INSTALL_RATE)
        elif step.kind == "image":
            yield Unit(step.name, unpacked(plan.steps) / EXPORT_RATE * cores(), cores())


def compile_units(catalog: Catalog, plan: Plan, step: Step) -> Iterator[Unit]:
    """The units of a wheel or a program, by the end of their object's path where they were measured one by one."""
    costs = measured(catalog)
    for name in target_families(plan, step):
        yield from _units(name, costs.get(name, UNMEASURED))
    for entry in entries(step.kernels or {}):
        yield from _units(str(entry["name"]), costs.get(family(entry), UNMEASURED))


def _units(folder: str, cost: Mapping[str, Any]) -> Iterator[Unit]:
    if "each" in cost:
        yield from (Unit(f"{folder}/{name}", unit["cpu_s"]) for name, unit in cost["each"].items())
        return
    count, longest = int(cost["units"]), float(cost.get("longest", {}).get("cpu_s", 0.0))
    rest = count - 1 if longest else count
    yield from [Unit(f"{folder}/longest", longest)] if longest else []
    for number in range(rest):
        yield Unit(f"{folder}/{number}", max(0.0, cost["cpu_s"] - longest) / rest)


def obstacles(ctx: Context, plan: Plan, there: Mapping[str, bool], apt: Path | None = None) -> list[str]:
    """What would stop this build, a line each. ``there`` names the cache hits."""
    torch = torch_problem(plan) if plan.of_kind("image") else None
    mirror = _mirror_problem(ctx, plan, there, apt)
    return [*([torch.message] if torch else []), *([f"{mirror.message}: {mirror.hint}"] if mirror else [])]


def _mirror_problem(ctx: Context, plan: Plan, there: Mapping[str, bool], apt: Path | None) -> UsageError | None:
    """An error when Debian packages must be downloaded and no mirror is known; else None."""
    bases = [step for step in plan.of_kind("rootfs") if not there[step.name]]
    if all(stored(ctx.store, file).exists() for step in bases for file in step.files):
        return None
    try:
        mirror_url(ctx.env, apt)
    except UsageError as error:
        return error
    return None
