"""What a later comparison must know of the machine that measured: its boot, clocks, power, heat and other work."""

import os
import platform
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Final

from gb10 import __version__
from gb10.core.proc import CommandFailedError, capture

BOOT_ID: Final = "proc/sys/kernel/random/boot_id"
GOVERNOR: Final = "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
ZONES: Final = "sys/class/thermal/thermal_zone*/temp"
GPU: Final = (
    "name",
    "driver_version",
    "clocks.sm",
    "clocks.max.sm",
    "temperature.gpu",
    "power.draw",
    "utilization.gpu",
    "clocks_event_reasons.active",
)
EVERY: Final = 5.0
"""Seconds between two looks while a load runs."""
Facts = dict[str, object]


@dataclass(frozen=True, slots=True)
class Clock:
    """A moment on two clocks: the one that people set, and the one that only runs."""

    wall: float
    steady: float

    def stepped(self, later: "Clock") -> float:
        """Seconds by which the clock was set between two moments."""
        return (later.wall - self.wall) - (later.steady - self.steady)


def now() -> Clock:
    """This moment."""
    return Clock(time.time(), time.monotonic())


def boot_id(root: Path = Path("/")) -> str:
    """The kernel's own name for this boot; ``unknown`` where there is none."""
    return _text(root / BOOT_ID) or "unknown"


def machine_facts(env: Mapping[str, str], root: Path = Path("/")) -> Facts:
    """Facts of the machine that sends the requests; the server may run on another. ``root`` has proc and sys."""
    return {
        "gb10": __version__,
        "python": platform.python_version(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "boot_id": boot_id(root),
        "cores": os.cpu_count(),
        "governor": _text(root / GOVERNOR) or "unknown",
        **machine_now(env, root),
    }


def machine_now(env: Mapping[str, str], root: Path = Path("/")) -> Facts:
    """What moves while a load runs: the load of the CPU, heat, free memory, and the GPU."""
    zones = [text for path in root.glob(ZONES) if (text := _text(path))]
    heat = [int(text) / 1000 for text in zones if text.removeprefix("-").isdigit()]
    lines = (_text(root / "proc/meminfo") or "").splitlines()
    free = [int(line.split()[1]) // 1024 for line in lines if line.startswith("MemAvailable:")]
    return {
        "load_1min": round(os.getloadavg()[0], 2),
        "celsius": max(heat, default=None),
        "memory_free_mib": next(iter(free), None),
        "gpu": gpu_facts(env),
    }


def _text(path: Path) -> str | None:
    """A small file of the kernel; None where it cannot be read."""
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None


def gpu_facts(env: Mapping[str, str]) -> list[dict[str, str]] | str:
    """What nvidia-smi reports of each GPU, as text; the reason when it reports nothing."""
    argv = ["nvidia-smi", f"--query-gpu={','.join(GPU)}", "--format=csv,noheader"]
    try:
        text = capture(argv, env=env)
    except CommandFailedError as error:
        return "no nvidia-smi on this machine" if error.returncode == 127 else f"nvidia-smi: {error.tail[:200]}"
    return [dict(zip(GPU, map(str.strip, line.split(",")), strict=False)) for line in text.splitlines() if line.strip()]


@contextmanager
def sample_machine(env: Mapping[str, str], every: float = EVERY) -> Iterator[list[Facts]]:
    """Look again and again while the context lasts; the list grows."""
    found: list[Facts] = []
    ended = Event()

    def work() -> None:
        while not ended.wait(every):
            found.append(machine_now(env))

    thread = Thread(target=work, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        ended.set()
        thread.join()
