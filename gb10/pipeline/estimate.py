"""Estimates: seconds, disk and memory of the steps that will run, from measured rates."""

import shutil
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gb10.engine.connection import Engine
from gb10.errors import BuildError
from gb10.fetch import stored
from gb10.kernel_sets import COSTS, entries
from gb10.pipeline.workshop import Workshop, cores, memory
from gb10.plan import Plan, Step
from gb10.schema import ALL

# Measured on two x86 cores (docs/design.md, "Measured"); bytes are those of the locked, compressed files.
DOWNLOAD_RATE: Final = 60e6
INSTALL_RATE: Final = 20e6  # a core
UNPACKED_RATIO: Final = 2.4  # installed and byte-compiled, against the wheels' bytes
EXPORT_RATE: Final = 100e6
ROOTFS_SECONDS: Final = 15.0
MOD_SECONDS: Final = 5.0  # run emulated, 3 to 6 measured; what its run.sh fetches or compiles comes on top
COPIES: Final = {False: 2, True: 4}  # stage and linked layer; containerd's store adds a blob and its unpacked snapshot
LEAST_MEMORY: Final = 2_000_000_000
COMPILED: Final = ("wheel", "program")
UNMEASURED: Final = {"cpu_s": 60, "peak_mib": 1024}


@dataclass(frozen=True, kw_only=True, slots=True)
class Needs:
    """What the missing steps need: bytes to download, bytes of disk at the peak, bytes of memory, seconds."""

    download: int
    disk: int
    memory: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Cost:
    """What a kernel set's modules take: CPU seconds, bytes of the largest process."""

    cpu_seconds: float
    peak: int


def kernel_cost(shop: Workshop, plan: Plan, step: Step) -> Cost:
    """The measured costs of a wheel's modules, or of a program; what was never measured counts as UNMEASURED."""
    costs, names = tomllib.loads(shop.catalog.contents[COSTS].decode()), [step.name]
    if step.kind == "wheel":
        build = plan.recipe.wheels[step.name]
        targets = [f"{build.source}_all"] if ALL in build.targets else build.targets
        names = [*targets, *(entry.get("cost", entry["name"]) for entry in entries(step.kernels or {}))]
    of_modules = [costs.get(name, UNMEASURED) for name in names]
    return Cost(sum(cost["cpu_s"] for cost in of_modules), max(cost["peak_mib"] for cost in of_modules) << 20)


def step_seconds(shop: Workshop, plan: Plan, step: Step) -> float:
    """How long a step takes when it runs, downloads apart."""
    if step.kind == "rootfs":
        return ROOTFS_SECONDS
    if step.kind in COMPILED:
        cost = kernel_cost(shop, plan, step)
        return cost.cpu_seconds / jobs(shop, cost)
    if step.kind in ("layer", "tools"):
        return step.download / INSTALL_RATE / cores()
    if step.kind == "mod":
        return MOD_SECONDS
    return unpacked(plan.steps) / EXPORT_RATE if step.kind == "image" else 0.0


def needs(shop: Workshop, plan: Plan, there: Mapping[str, bool], engine: Engine | None) -> Needs:
    """Totals over the steps that are not there; ``engine`` is the one that runs."""
    absent = [step for step in plan.steps if not there[step.name]]
    files = {file.sha256: file for step in absent for file in step.files}
    download = sum(file.size for file in files.values() if not stored(shop.store, file).exists())
    sent = sum(step.download for step in absent if step.kind != "rootfs")
    stages = sum(step.download for step in absent if step.kind in ("tools", *COMPILED)) * UNPACKED_RATIO
    copies = COPIES[bool(engine and engine.containerd)]
    layers = copies * unpacked(absent)
    if shop.builder:  # stages and layers are there; here is what is sent, and the whole image that comes back
        stages, layers = 0, unpacked(plan.steps) if any(step.kind == "image" for step in absent) else 0
    costs = [kernel_cost(shop, plan, step) for step in absent if step.kind in COMPILED]
    return Needs(
        download=download,
        disk=int(download + sent + stages + layers),
        memory=max([LEAST_MEMORY, *(cost.peak * jobs(shop, cost) for cost in costs)]),
        seconds=download / DOWNLOAD_RATE + sum(step_seconds(shop, plan, step) for step in absent),
    )


def unpacked(steps: Iterable[Step]) -> int:
    """Bytes on disk of the layers and bases, once."""
    return int(sum(step.download for step in steps if step.kind in ("layer", "rootfs")) * UNPACKED_RATIO)


def check_room(shop: Workshop, needed: Needs, engine: Engine | None) -> None:
    """Say what the work needs; raises BuildError before it starts when a disk or the memory is too small."""
    free = shutil.disk_usage(shop.store.root).free
    shop.talk.say(f"needs {needed.disk / 1e9:.1f} GB of disk ({free / 1e9:.1f} GB free), "
                  f"{needed.download / 1e9:.1f} GB to download, about {needed.seconds / 60:.0f} min")  # fmt: skip
    for folder, wanted in _disks(shop.store.root, engine.data if engine else None, needed).items():
        if wanted > shutil.disk_usage(folder).free:
            raise BuildError(
                f"not enough disk: {wanted / 1e9:.1f} GB needed, {shutil.disk_usage(folder).free / 1e9:.1f} GB free",
                where=str(folder),
                hint="free some, or set GB10_CACHE_DIR (and Docker's data-root) to a larger disk",
            )
    if shop.builder is None and needed.memory > memory():  # a builder has its own
        raise BuildError(
            f"not enough memory: {needed.memory / 1e9:.1f} GB needed, {memory() / 1e9:.1f} GB available",
            hint="lower GB10_JOBS or stop other programs",
        )


def _disks(store: Path, data: Path | None, needed: Needs) -> dict[Path, int]:
    """Bytes by directory: all in the store, unless the engine keeps its data on another disk."""
    if data is None or data.stat().st_dev == store.stat().st_dev:
        return {store: needed.disk}
    return {store: needed.download, data: needed.disk - needed.download}


def jobs(shop: Workshop, cost: Cost) -> int:
    """Compile jobs: GB10_JOBS, else as many as cores and memory allow for the largest unit."""
    if shop.env.get("GB10_JOBS"):
        return int(shop.env["GB10_JOBS"])
    return max(1, min(cores(), memory() // max(1, cost.peak)))
