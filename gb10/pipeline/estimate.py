"""Estimates: seconds, disk and memory of the steps that will run, from measured rates."""

import json
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
    """What a kernel set's modules take: CPU seconds, bytes of the largest process, seconds by the bytes of each."""

    cpu_seconds: float
    peak: int
    byte_seconds: float


def kernel_cost(shop: Workshop, plan: Plan, step: Step) -> Cost:
    """The measured costs of a wheel's modules, or of a program; what was never measured counts as UNMEASURED."""
    costs = measured(shop)
    of_modules = [costs.get(name, UNMEASURED) for name in _families(plan, step)]
    return Cost(sum(cost["cpu_s"] for cost in of_modules), max(cost["peak_mib"] for cost in of_modules) << 20,
                sum(cost["cpu_s"] * (cost["peak_mib"] << 20) for cost in of_modules))  # fmt: skip


def measured(shop: Workshop) -> Mapping[str, Mapping[str, int]]:
    """``units``, ``cpu_s`` and ``peak_mib`` by family, as recipes/kernels/costs.toml tells them."""
    return tomllib.loads(shop.catalog.contents[COSTS].decode())


def _families(plan: Plan, step: Step) -> list[str]:
    if step.kind != "wheel":
        return [step.name]
    build = plan.recipe.wheels[step.name]
    targets = [f"{build.source}_all"] if ALL in build.targets else build.targets
    return [*targets, *(entry.get("cost", entry["name"]) for entry in entries(step.kernels or {}))]


def peaks(shop: Workshop, plan: Plan, step: Step) -> bytes:
    """What inside/room.py reads: MiB of each family's largest process, and of those of this step that have no name."""
    by_family = {family: cost["peak_mib"] for family, cost in measured(shop).items()}
    return json.dumps({"peaks": by_family, "other": kernel_cost(shop, plan, step).peak >> 20}, indent=1).encode()


def step_seconds(shop: Workshop, plan: Plan, step: Step) -> float:
    """How long a step takes when it runs, downloads apart."""
    if step.kind == "rootfs":
        return ROOTFS_SECONDS
    if step.kind in COMPILED:
        cost = kernel_cost(shop, plan, step)
        return max(cost.cpu_seconds / jobs(shop), cost.byte_seconds / memory())
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
        memory=max([LEAST_MEMORY, *(cost.peak for cost in costs)]),
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
            hint="stop other programs, or let a larger machine compile (--builder)",
        )


def _disks(store: Path, data: Path | None, needed: Needs) -> dict[Path, int]:
    """Bytes by directory: all in the store, unless the engine keeps its data on another disk."""
    if data is None or data.stat().st_dev == store.stat().st_dev:
        return {store: needed.disk}
    return {store: needed.download, data: needed.disk - needed.download}


def jobs(shop: Workshop) -> int:
    """Compile jobs at most: GB10_JOBS, else this machine's cores; memory holds units back one by one (room.py)."""
    return int(shop.env.get("GB10_JOBS") or cores())


def asked_jobs(shop: Workshop) -> str:
    """The jobs in words of a compile stage's shell: it knows the cores of the machine that compiles."""
    return shop.env.get("GB10_JOBS") or "$(nproc)"
