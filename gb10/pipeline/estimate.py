"""Estimates: seconds, disk and memory of the steps that will run; this machine's own past runs beat the table."""

import json
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from gb10.errors import BuildError
from gb10.fetch import stored
from gb10.pipeline.workshop import Workshop, cores, memory
from gb10.plan import Plan, Step
from gb10.talk import Timing

# Measured on two x86 cores, cold (docs/figures.md); bytes are those of the locked, compressed files.
DOWNLOAD_RATE: Final = 45e6
INSTALL_RATE: Final = 12e6
UNPACKED_RATIO: Final = 2.4  # installed and byte-compiled, against the wheels' bytes
COPIES: Final = 3  # stage, linked layer, content store
EXPORT_SECONDS_PER_BYTE: Final = 1 / 60e6
WHEEL_CPU_SECONDS: Final = 700
ROOTFS_SECONDS: Final = 25
PEAK_JOB_MEMORY: Final = 1_300_000_000  # nvcc on the largest unit of the kernel set


@dataclass(frozen=True, kw_only=True, slots=True)
class Needs:
    """What the missing steps need: bytes to download, bytes of disk at the peak, bytes of memory, seconds."""

    download: int
    disk: int
    memory: int
    seconds: float


def step_seconds(shop: Workshop, step: Step) -> float:
    """How long a step takes when it runs, downloads apart."""
    measured = history(shop).get(step.name)
    if measured is not None:
        return measured
    if step.kind == "rootfs":
        return ROOTFS_SECONDS
    if step.kind == "wheel":
        return WHEEL_CPU_SECONDS / max(1, jobs(shop))
    if step.kind in ("layer", "tools"):
        return step.download / INSTALL_RATE / cores()
    return 0.0


def needs(shop: Workshop, plan: Plan, there: Mapping[str, bool]) -> Needs:
    """Totals over the steps that are not there."""
    absent = [step for step in plan.steps if not there[step.name]]
    files = {file.sha256: file for step in absent for file in step.files}
    download = sum(file.size for file in files.values() if not stored(shop.store, file).exists())
    installed = unpacked(absent)
    export = 0 if there.get("image", True) else unpacked(plan.steps) * EXPORT_SECONDS_PER_BYTE
    return Needs(
        download=download,
        disk=int(download + sum(step.download for step in absent if step.kind == "layer") + COPIES * installed),
        memory=PEAK_JOB_MEMORY * jobs(shop) if any(step.kind == "wheel" for step in absent) else 1_000_000_000,
        seconds=download / DOWNLOAD_RATE + sum(step_seconds(shop, step) for step in absent) + export,
    )


def unpacked(steps: Iterable[Step]) -> int:
    """Bytes on disk of the layers and bases, once."""
    return int(sum(step.download for step in steps if step.kind in ("layer", "rootfs")) * UNPACKED_RATIO)


def check_room(shop: Workshop, needed: Needs) -> None:
    """Say what the work needs; raises BuildError before it starts when disk or memory are too small."""
    free = shutil.disk_usage(shop.store.root).free
    shop.talk.say(f"needs {needed.disk / 1e9:.1f} GB of disk ({free / 1e9:.1f} GB free), "
                  f"{needed.download / 1e9:.1f} GB to download, about {needed.seconds / 60:.0f} min")  # fmt: skip
    if needed.disk > free:
        raise BuildError(
            f"not enough disk: {needed.disk / 1e9:.1f} GB needed, {free / 1e9:.1f} GB free",
            where=str(shop.store.root),
            hint="free some, or set GB10_CACHE_DIR to a larger disk",
        )
    if needed.memory > memory():
        raise BuildError(
            f"not enough memory: {needed.memory / 1e9:.1f} GB needed, {memory() / 1e9:.1f} GB available",
            hint="lower GB10_JOBS or stop other programs",
        )


def jobs(shop: Workshop) -> int:
    """Compile jobs: GB10_JOBS, else as many as cores and memory allow."""
    if shop.env.get("GB10_JOBS"):
        return int(shop.env["GB10_JOBS"])
    return max(1, min(cores(), memory() // PEAK_JOB_MEMORY))


def history(shop: Workshop) -> Mapping[str, float]:
    """Seconds that each step took when it last ran on this machine."""
    path = shop.store.root / "timings.json"
    values: dict[str, float] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return values


def remember(shop: Workshop, timings: Iterable[Timing]) -> None:
    """Keep the durations of what really ran."""
    merged = {**history(shop), **{timing.name: round(timing.seconds, 1) for timing in timings if not timing.hit}}
    path = shop.store.root / "timings.json"
    aside = path.with_suffix(".new")
    aside.write_text(json.dumps(merged, sort_keys=True, indent=1), encoding="utf-8")
    aside.replace(path)
