"""Whether a figure was measured under even conditions: clocks, heat, power, other work, a warm server. Pure."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from gb10.serving.load_generator.results import LoadRun
from gb10.serving.load_generator.server_pages import ServerCounts

SLOWED: Final = {
    0x4: "its power limit",
    0x8: "a hardware slowdown",
    0x20: "heat (software)",
    0x40: "heat (hardware)",
    0x80: "the power brake",
}
"""Bits of nvidia-smi's clocks_event_reasons that mean a slower GPU under load."""
BUSY: Final = 50.0
"""Per cent of use from which a GPU counts as loaded."""
IDLE: Final = 10.0
UNEVEN: Final = 0.05
HOT: Final = 85.0
SCARCE: Final = 1024
STEP: Final = 0.02
"""Seconds by which the clock may move during a load: NTP slews less."""
WARM: Final = 0.05


Facts = Mapping[str, object]


def start_doubts(facts: Facts, others: int | None) -> tuple[str, ...]:
    """What speaks against figures before the first request; ``others``: requests that run on the server. Pure."""
    found = []
    load, cores = number(facts.get("load_1min")) or 0, number(facts.get("cores")) or 1
    if load > max(1.0, cores / 4):
        found.append(f"other programs run on this machine: load {load:g} on {cores:g} cores")
    if any((number(gpu.get("utilization.gpu")) or 0) > IDLE for gpu in gpus(facts)):
        found.append("the GPU of this machine was busy before the first request")
    if others:
        found.append(f"{others} other requests ran on the server")
    return tuple(found)


def load_doubts(looks: Sequence[Facts], counted: ServerCounts) -> tuple[str, ...]:
    """What speaks against the figures of one load. Pure."""
    preempted = f"the server put back {counted.preempted} requests: its cache was full" if counted.preempted else ""
    return (*_of_gpu(looks), *_of_machine(looks), *filter(None, [preempted]))


def unknown(before: Facts) -> tuple[str, ...]:
    """What of the conditions cannot be known on this machine, and why. Pure."""
    gpu = before.get("gpu")
    found = [f"clocks and power of the GPU: {gpu}"] if isinstance(gpu, str) else []
    if before.get("celsius") is None:
        found.append("heat: no thermal zone below /sys can be read")
    if before.get("governor") == "unknown":
        found.append("the CPU's clock: its governor below /sys cannot be read")
    return tuple(found)


def clock_step_doubt(seconds: float) -> str:
    """The sentence of a clock that was set while a load ran; empty when it was not. Pure."""
    return f"the clock of this machine was set by {seconds:+.2f} s while the load ran" if abs(seconds) > STEP else ""


def warm_up_doubt(runs: Sequence[LoadRun]) -> str:
    """The sentence of a first run that is slower than all others; empty when it is not. Pure."""
    rates = [run.steps_s for run in runs if not run.warm_up]
    found = [rate for rate in rates if rate is not None]
    if len(found) < 3 or len(found) < len(rates):
        return ""
    rest = statistics.median(found[1:])
    slow = found[0] < min(found[1:]) and found[0] < rest * (1 - WARM)
    return f"the first run is {1 - found[0] / rest:.0%} slower than the others: warm up longer" if slow else ""


def gpus(facts: Facts) -> list[Mapping[str, str]]:
    """The GPUs of some facts. Pure."""
    found = facts.get("gpu")
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, Sequence) else []


def number(text: object) -> float | None:
    """The number that a text of nvidia-smi begins with: ``2418 MHz``. Pure."""
    try:
        return float(str(text).split()[0])
    except (ValueError, IndexError):
        return None


def busy_gpus(looks: Sequence[Facts]) -> list[Mapping[str, str]]:
    """The GPUs that worked, of all looks. Pure."""
    return [gpu for facts in looks for gpu in gpus(facts) if (number(gpu.get("utilization.gpu")) or 0) >= BUSY]


def _of_gpu(looks: Sequence[Facts]) -> Iterator[str]:
    busy = busy_gpus(looks)
    clocks = [clock for gpu in busy if (clock := number(gpu.get("clocks.sm")))]
    if clocks and min(clocks) < max(clocks) * (1 - UNEVEN):
        yield f"the GPU's clock moved between {min(clocks):,.0f} and {max(clocks):,.0f} MHz"
    for bit, name in SLOWED.items():
        count = sum(bool(_bits(gpu.get("clocks_event_reasons.active")) & bit) for gpu in busy)
        if count:
            yield f"the GPU was slowed down by {name} in {count} of {len(busy)} looks"


def _bits(text: object) -> int:
    try:
        return int(str(text), 16)
    except ValueError:
        return 0


def _of_machine(looks: Sequence[Facts]) -> Iterator[str]:
    heat = [found for facts in looks if (found := number(facts.get("celsius"))) is not None]
    if heat and max(heat) >= HOT:
        yield f"this machine reached {max(heat):.0f} °C"
    free = [found for facts in looks if (found := number(facts.get("memory_free_mib"))) is not None]
    if free and min(free) < SCARCE:
        yield f"this machine had only {min(free):,.0f} MiB of free memory"
