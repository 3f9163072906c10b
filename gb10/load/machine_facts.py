"""What a later comparison must know of the machine that measured: boot, load, clocks and power of its GPU."""

import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gb10 import __version__
from gb10.host.proc import CommandFailedError, capture

BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
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


def boot_id() -> str:
    """The kernel's own name for this boot; ``unknown`` where there is none."""
    try:
        return BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return "unknown"


def machine_facts(env: Mapping[str, str]) -> dict[str, object]:
    """Facts of the machine that sends the requests; the server may run on another."""
    return {
        "gb10": __version__,
        "python": platform.python_version(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "boot_id": boot_id(),
        "cores": os.cpu_count(),
        "load_1min": round(os.getloadavg()[0], 2),
        "gpu": gpu_facts(env),
    }


def gpu_facts(env: Mapping[str, str]) -> list[dict[str, str]] | str:
    """What nvidia-smi reports of each GPU, as text; the reason when it reports nothing."""
    argv = ["nvidia-smi", f"--query-gpu={','.join(GPU)}", "--format=csv,noheader"]
    try:
        text = capture(argv, env=env)
    except CommandFailedError as error:
        return "no nvidia-smi on this machine" if error.returncode == 127 else f"nvidia-smi: {error.tail[:200]}"
    return [dict(zip(GPU, map(str.strip, line.split(",")), strict=False)) for line in text.splitlines() if line.strip()]
