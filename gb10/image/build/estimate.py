"""Estimates: seconds, disk and memory of the steps that will run, from measured rates."""

import shutil
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gb10.containers.connection import Engine
from gb10.core.fetch import stored
from gb10.errors import BuildError
from gb10.image.build.built import one_by_one
from gb10.image.build.costs import critical_path, kernel_cost
from gb10.image.build.rates import REFERENCE, known_speed
from gb10.image.context import Context, cores, memory
from gb10.image.plan.values import Plan, Step

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


@dataclass(frozen=True, kw_only=True, slots=True)
class Needs:
    """Needs of the missing steps: bytes to download, peak bytes of disk, memory for the largest unit, seconds.

    ``longest`` names the unit that takes most CPU time of those that were measured, and ``longest_seconds`` how much.
    ``compile_seconds`` are those of all compiles together, ``compile_bound`` is what makes them no fewer. ``rates`` is
    the machine on which the seconds were measured.
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

    @property
    def foreign(self) -> bool:
        """Whether the seconds are another machine's."""
        return self.rates == REFERENCE


def step_seconds(ctx: Context, plan: Plan, step: Step) -> float:
    """Seconds that a step takes alone here, without downloads."""
    return known_speed(ctx)[0].whole * _reference_seconds(ctx, plan, step)


def _reference_seconds(ctx: Context, plan: Plan, step: Step) -> float:
    """The same on a machine as fast as that of the measurements, with this one's cores."""
    if step.kind == "rootfs":
        return ROOTFS_SECONDS
    if step.kind in COMPILED:
        return together_seconds(ctx, plan, (step,))
    if step.kind in ("layer", "tools", "rehearsal"):
        own = REHEARSAL_SECONDS if step.kind == "rehearsal" else 0.0
        return own + step.download / INSTALL_RATE / cores()
    if step.kind == "mod":
        return MOD_SECONDS
    return unpacked(plan.steps) / EXPORT_RATE if step.kind == "image" else 0.0


def together_seconds(ctx: Context, plan: Plan, steps: Iterable[Step]) -> float:
    """Seconds of these compiles at the same time, on such a machine."""
    costs = (kernel_cost(ctx.catalog, plan, step) for step in steps)
    return critical_path(ctx.env, (family for cost in costs for family in cost)).seconds


def needs(ctx: Context, plan: Plan, there: Mapping[str, bool], engine: Engine | None) -> Needs:
    """Totals over the missing steps. ``engine`` is the running engine."""
    absent = [step for step in plan.steps if not there[step.name]]
    files = {file.sha256: file for step in absent for file in step.reads}
    download = sum(file.size for file in files.values() if not stored(ctx.store, file).exists())
    families = [family for step in absent if step.kind in COMPILED for family in kernel_cost(ctx.catalog, plan, step)]
    critical = critical_path(ctx.env, families)
    long = max(families, key=lambda one: one.longest_seconds, default=None)
    speed, rates = known_speed(ctx)
    others = (_reference_seconds(ctx, plan, step) for step in absent if step.kind not in COMPILED)
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
    there = peak = 0.0
    for step in absent:
        there += unpacked([step])
        peak = max(peak, there + (step.download * (1 + UNPACKED_RATIO) if step.kind == "layer" else 0))
    return peak


def unpacked(steps: Iterable[Step]) -> int:
    """Bytes on disk of the layers and bases, once."""
    return int(sum(step.download for step in steps if step.kind in ("layer", "rootfs")) * UNPACKED_RATIO)


def check_room(ctx: Context, needed: Needs, engine: Engine | None) -> None:
    """Print what the work needs. Raises BuildError before it starts when disk or memory is too small."""
    free = shutil.disk_usage(ctx.store.root).free
    ctx.reporter.say(
        f"needs {needed.disk / 1e9:.1f} GB of disk ({free / 1e9:.1f} GB free), "
        f"{needed.download / 1e9:.1f} GB to download, about {needed.seconds / 60:.0f} min"
        f"{' at the speed of another machine' if needed.foreign else ''}"
    )
    for folder, wanted in _disks(ctx.store.root, engine.data if engine else None, needed).items():
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


def _disks(store: Path, data: Path | None, needed: Needs) -> dict[Path, int]:
    """Bytes by directory: all in the store, unless the engine keeps its data on another disk."""
    if data is None or data.stat().st_dev == store.stat().st_dev:
        return {store: needed.disk}
    return {store: needed.download, data: needed.disk - needed.download}
