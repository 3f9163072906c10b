"""Estimates: seconds, disk and memory of the steps that will run, as a forecast too, and what would stop them."""

import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from packaging.utils import canonicalize_name

from gb10.containers.connection import Engine
from gb10.core.compilers_seen import compilers_seen
from gb10.core.fetch import missing_files
from gb10.core.fields import requirement_name
from gb10.core.files import Artifact, has_hard_links
from gb10.core.forecast import Forecast
from gb10.core.work_state import Part, Unit
from gb10.errors import BuildError, UsageError
from gb10.image.build.costs import (
    REFERENCE,
    UNMEASURED,
    critical_path,
    family,
    jobs,
    kernel_cost,
    known_speed,
    measured,
    target_families,
)
from gb10.image.build.kept_by_engine import one_by_one
from gb10.image.context import Context, cores, memory
from gb10.image.plan.catalog import Catalog
from gb10.image.plan.values import Plan, Step, torch_problem
from gb10.image.recipe.image_recipe import WHOLE
from gb10.image.recipe.kernel_sets import entries
from gb10.sources.debian.mirror import mirror_url

# Measured on two x86 cores (docs/measurements.md); bytes are those of the locked, compressed files.
DOWNLOAD_RATE: Final = 60e6
INSTALL_RATE: Final = 20e6  # a core
UNPACKED_RATIO: Final = 2.4  # installed and byte-compiled, against the wheels' bytes
EXPORT_RATE: Final = 100e6
ROOTFS_SECONDS: Final = 15.0
MOD_SECONDS: Final = 5.0  # run emulated, 3 to 6 measured; what its run.sh fetches or compiles comes on top
REHEARSAL_SECONDS: Final = 120.0  # one process, with some 30 kernels of Triton
COPIES: Final = {False: 2, True: 4}  # stage and linked layer; containerd's store adds a blob and its unpacked snapshot
LEAST_MEMORY: Final = 3_000_000_000  # to slim the largest library takes 2.6
COMPILED: Final = ("wheel", "program")
UNPACKED: Final = ("layer", "rootfs", "base", "added")


@dataclass(frozen=True, kw_only=True, slots=True)
class Needs:
    """Needs of the missing steps: bytes to download, peak bytes of disk, memory for the largest unit, seconds.

    ``longest`` names the unit that takes most CPU time of those that were measured, and ``longest_seconds`` how much.
    ``compile_seconds`` are those of all compiles together, ``compile_bound`` is what makes them no fewer. ``rates`` is
    the machine on which the seconds were measured. ``copies`` are bytes more in the store where its file system has no
    hard links: what a step sends to the engine is copied for it.
    """

    download: int
    disk: int
    memory: int
    seconds: float
    longest: str = ""
    longest_seconds: float = 0.0
    compile_seconds: float = 0.0
    compile_bound: str = ""
    rates: str = ""
    copies: int = 0

    @property
    def foreign(self) -> bool:
        """Whether the seconds are another machine's."""
        return self.rates == REFERENCE


@dataclass(frozen=True, kw_only=True, slots=True)
class StepBytes:
    """Bytes of one step: those to download, those that making it writes, downloads and copies too, and those that stay
    in store and engine afterwards.
    """

    download: int
    written: int
    kept: int


def plan_bytes(
    ctx: Context, plan: Plan, cached: Mapping[str, bool], engine: Engine | None
) -> tuple[Mapping[str, StepBytes], StepBytes]:
    """What each step moves and leaves, and all steps together. What several steps read is downloaded once and kept
    once; each writes it for its stage.
    """
    files = {file.sha256: file for step in plan.steps for file in _reads(step)}
    lacking = missing_files(ctx.store, files.values())
    each = {
        step.name: _step_bytes(ctx, plan, step, lacking, hit=cached[step.name], engine=engine) for step in plan.steps
    }
    again = _repeated(file for step in plan.steps for file in _reads(step))
    missing = [step for step in plan.steps if not cached[step.name]]
    fetched = _repeated(file for step in missing for file in _reads(step) if file.sha256 in lacking)
    return each, StepBytes(
        download=sum(one.download for one in each.values()) - fetched,
        written=sum(one.written for one in each.values()) - fetched,
        kept=sum(one.kept for one in each.values()) - again,
    )


def _step_bytes(
    ctx: Context, plan: Plan, step: Step, lacking: Collection[str], *, hit: bool, engine: Engine | None
) -> StepBytes:
    """``lacking`` are files that the store has not. Of a layer it is estimated from its wheels, less what the slimming
    rules drop.
    """
    reads = _reads(step)
    files = sum(file.size for file in reads)
    fetched = 0 if hit else sum(file.size for file in reads if file.sha256 in lacking)
    whole = step.download * UNPACKED_RATIO
    layer = max(0.0, whole - 1e6 * _slimmed(plan, step)) if step.kind in UNPACKED else 0.0
    copies = COPIES[bool(engine and engine.containerd)] - 1  # the first is the stage's, before it is slimmed
    if ctx.builder:
        written = files + layer * copies  # what is sent to it is read here; the image comes back
    else:
        stage = files + whole if step.kind in (*UNPACKED, "tools", "rehearsal", *COMPILED) else 0.0
        written = stage + layer * copies
    return StepBytes(download=fetched, written=0 if hit else int(fetched + written), kept=int(files + layer * copies))


def _reads(step: Step) -> tuple[Artifact, ...]:
    return () if step.kind == "graft" else step.reads  # its wheel is the layer's


def _repeated(files: Iterable[Artifact]) -> int:
    """Bytes of files beyond each one's first time."""
    every = list(files)
    return sum(file.size for file in every) - sum({file.sha256: file.size for file in every}.values())


def _slimmed(plan: Plan, step: Step) -> float:
    """MB that rules leave out of a layer."""
    projects = {canonicalize_name(file.filename.partition("-")[0]) for file in step.files}
    return sum(
        saved for rule in plan.slim for release, saved in rule.mb.items() if requirement_name(release) in projects
    )


def step_seconds(ctx: Context, plan: Plan, steps: Iterable[Step]) -> Mapping[str, float]:
    """Seconds that each step takes alone here, without downloads."""
    whole = known_speed(ctx)[0].whole
    return {step.name: whole * _reference_seconds(ctx, plan, step) for step in steps}


def _reference_seconds(ctx: Context, plan: Plan, step: Step) -> float:
    """The same on a machine as fast as that of the measurements, with this one's cores."""
    if step.kind == "rootfs":
        return ROOTFS_SECONDS
    if step.kind in COMPILED:
        return critical_path(ctx.env, kernel_cost(ctx.catalog, plan, step)).seconds
    if step.kind in ("layer", "tools", "rehearsal"):
        own = REHEARSAL_SECONDS if step.kind == "rehearsal" else 0.0
        return own + step.download / INSTALL_RATE / cores()
    if step.kind == "mod":
        return MOD_SECONDS
    return unpacked(plan.steps) / EXPORT_RATE if step.kind == "image" else 0.0


def needs(ctx: Context, plan: Plan, cached: Mapping[str, bool], engine: Engine | None) -> Needs:
    """Totals over the missing steps. ``engine`` is the running engine."""
    absent = [step for step in plan.steps if not cached[step.name]]
    files = {file.sha256: file for step in absent for file in step.reads}
    download = sum(files[sha256].size for sha256 in missing_files(ctx.store, files.values()))
    families = [family for step in absent if step.kind in COMPILED for family in kernel_cost(ctx.catalog, plan, step)]
    critical = critical_path(ctx.env, families)
    long = max(families, key=lambda one: one.longest_seconds, default=None)
    speed, rates = known_speed(ctx)
    others = (_reference_seconds(ctx, plan, step) for step in absent if step.kind not in COMPILED)
    # Wheels are compiled beside each other, and beside the layers, which go one by one or all in one solve.
    compiled = sum(step.download for step in absent if step.kind in ("rehearsal", *COMPILED))
    layers = [step.download for step in absent if step.kind == "layer"]
    return Needs(
        download=download,
        disk=int(download + _build_disk(ctx, plan, absent, engine)),
        memory=max([LEAST_MEMORY, *(family.peak for family in families)]),
        seconds=download / DOWNLOAD_RATE + speed.whole * (critical.seconds + sum(others)),
        longest=long.longest if long else "",
        longest_seconds=speed.whole * long.longest_seconds if long else 0.0,
        compile_seconds=speed.whole * critical.seconds,
        compile_bound=critical.bound,
        rates=rates,
        copies=compiled + (max(layers, default=0) if one_by_one(ctx, engine) else sum(layers)),
    )


def _build_disk(ctx: Context, plan: Plan, absent: Collection[Step], engine: Engine | None) -> float:
    """Peak bytes that the engine needs: what is sent to it, stages, layers."""
    compiled = sum(step.download for step in absent if step.kind in ("tools", "rehearsal", *COMPILED))
    layers = [step.download for step in absent if step.kind == "layer"]
    if ctx.builder:  # stages and layers are there; here is what is sent, and the whole image that comes back
        whole = unpacked(plan.steps) if any(step.kind == "image" for step in absent) else 0
        return compiled + sum(layers) + whole
    stages = compiled * (1 + UNPACKED_RATIO)
    if one_by_one(ctx, engine):
        return stages + _one_by_one(absent)
    return stages + sum(layers) + COPIES[bool(engine and engine.containerd)] * unpacked(absent)


def _one_by_one(absent: Iterable[Step]) -> float:
    """Peak bytes of layers that are built in their order, each with its wheels and its stage beside it."""
    stored = peak = 0.0
    for step in absent:
        stored += unpacked([step])
        peak = max(peak, stored + (step.download * (1 + UNPACKED_RATIO) if step.kind == "layer" else 0))
    return peak


def unpacked(steps: Iterable[Step]) -> int:
    """Bytes on disk of the layers and bases, once."""
    return int(sum(step.download for step in steps if step.kind in UNPACKED) * UNPACKED_RATIO)


def check_disk_and_memory(ctx: Context, needed: Needs, engine: Engine | None) -> None:
    """Print what the work needs. Raises BuildError before it starts when disk or memory is too small."""
    free = shutil.disk_usage(ctx.store.root).free
    ctx.reporter.say(
        f"needs {needed.disk / 1e9:.1f} GB of disk ({free / 1e9:.1f} GB free), "
        f"{needed.download / 1e9:.1f} GB to download, about {needed.seconds / 60:.0f} min"
        f"{' at the speed of another machine' if needed.foreign else ''}"
    )
    with ctx.store.folder("links") as folder:
        linked = has_hard_links(folder)
    if not linked:
        ctx.reporter.say(
            f"the file system of {ctx.store.root} has no hard links: what a step sends to the engine is copied for it, "
            f"which takes longer and up to {needed.copies / 1e9:.1f} GB more of disk while it is sent"
        )
    copies = 0 if linked else needed.copies
    store, data = ctx.store.root, engine.data if engine else None
    wanted_on = {store: needed.disk + copies}
    if data is not None and data.stat().st_dev != store.stat().st_dev:  # the engine keeps its data on another disk
        wanted_on = {store: needed.download + copies, data: needed.disk - needed.download}
    for folder, wanted in wanted_on.items():
        if wanted > shutil.disk_usage(folder).free:
            raise BuildError(
                f"not enough disk: {wanted / 1e9:.1f} GB needed, {shutil.disk_usage(folder).free / 1e9:.1f} GB free",
                where=str(folder),
                hint="free some, or set GB10_CACHE_DIR (and Docker's data-root) to a larger disk",
            )
    if ctx.builder is None and needed.memory > memory():  # a builder has its own
        raise BuildError(
            f"not enough memory: {needed.memory / 1e9:.1f} GB needed, {memory() / 1e9:.1f} GB available",
            hint="stop other programs, or let a larger machine compile (--builder)",
        )


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
        return "" if self.forecast.unmeasured() else f"{self.forecast.share() * 100:.0f} % of all work"

    def left(self) -> str:
        """Until all is done."""
        unknown = self.forecast.unmeasured()
        return f"how long {', '.join(unknown)} takes is not known" if unknown else self.forecast.sentence()


def outlook(ctx: Context, part: str) -> Outlook | None:
    """What a task shows; nothing where the command made no forecast of it."""
    return Outlook(ctx.forecast) if ctx.forecast.knows(part) else None


def with_forecast(ctx: Context, plan: Plan, cached: Mapping[str, bool], engine: Engine | None) -> Context:
    """The context with a forecast of the steps that are not there."""
    absent = [step for step in plan.steps if not cached[step.name]]
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
        # nobody measured a package of a user's: it says nothing of how fast this machine is
        unknown = step.kind == "wheel" and plan.recipe.wheels[step.name].method in WHOLE
        yield Part(name=step.name, units=units, pooled=not unknown, after=(TOOLS,), measured=not unknown)


def _rest(ctx: Context, plan: Plan, absent: Collection[Step], *, alone: bool) -> Iterator[Part]:
    files = {file.sha256: file for step in absent if step.kind not in COMPILED for file in step.reads}
    size = sum(files[sha256].size for sha256 in missing_files(ctx.store, files.values()))
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


def obstacles(ctx: Context, plan: Plan, cached: Mapping[str, bool], apt: Path | None = None) -> list[str]:
    """What would stop this build, a line each. ``cached`` names the hits."""
    torch = torch_problem(plan) if plan.of_kind("image") else None
    mirror = _mirror_problem(ctx, plan, cached, apt)
    return [*([torch.message] if torch else []), *([f"{mirror.message}: {mirror.hint}"] if mirror else [])]


def _mirror_problem(ctx: Context, plan: Plan, cached: Mapping[str, bool], apt: Path | None) -> UsageError | None:
    """An error when Debian packages must be downloaded and no mirror is known; else None."""
    bases = [step for step in plan.of_kind("rootfs") if not cached[step.name]]
    if not missing_files(ctx.store, (file for step in bases for file in step.files)):
        return None
    try:
        mirror_url(ctx.env, apt)
    except UsageError as error:
        return error
    return None
