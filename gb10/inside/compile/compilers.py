"""Inside a build stage: what all compiles share: the settings of ccache, and what each unit cost."""

import json
import os
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

# What nvcc and the host compiler run or read: ccache itself looks only at the two drivers.
DEVICE_COMPILER = (
    "bin/cudafe++",
    "bin/fatbinary",
    "bin/nvcc.profile",
    "bin/ptxas",
    "nvvm/bin/cicc",
    "nvvm/libdevice/libdevice.10.bc",
)
HOST_COMPILER = ("as", "cc1plus")


def cache_settings(work: Path, source: Path, cuda_home: Path, cxx: str) -> dict[str, str]:
    """The environment of ccache and of launch.py."""
    return {
        "GB10_LAUNCH_LOG": str(work / "launch.jsonl"),
        "CCACHE_BASEDIR": os.path.commonpath((work, source)),
        "CCACHE_NOHASHDIR": "1",
        "CCACHE_DEPEND": "1",  # what a unit includes is in the compiler's own list: it is not preprocessed for that
        "CCACHE_COMPILERCHECK": "content",  # an unpacked compiler's time says nothing
        "CCACHE_EXTRAFILES": ":".join(map(str, compiler_files(cuda_home, cxx))),
    }


def compiler_files(cuda_home: Path, cxx: str) -> tuple[Path, ...]:
    """The programs behind the compiler drivers; raises SystemExit when one is missing."""
    paths = [*(str(cuda_home / name) for name in DEVICE_COMPILER), *(host_program(cxx, name) for name in HOST_COMPILER)]
    missing = [path for path in paths if not Path(path).is_file()]
    if missing:  # ccache would give up caching, and say so only in its statistics
        raise SystemExit(f"no such part of the compiler: {', '.join(missing)}")
    return tuple(Path(path).resolve() for path in paths)


def host_program(cxx: str, name: str) -> str:
    """Where the host compiler finds one of its programs; the name itself when nowhere."""
    found = subprocess.run([cxx, f"-print-prog-name={name}"], check=True, capture_output=True, text=True).stdout.strip()
    return shutil.which(found) or found


def write_measured(work: Path, owner: Callable[[str], str] = lambda made: Path(made).parent.name) -> None:
    """WORK/measured.json: per module CPU seconds, units compiled now, peak RSS in MiB of the largest process.

    ``owner`` gives an object's module; objects without one are not counted.
    """
    log = work / "launch.jsonl"
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    modules: dict[str, dict[str, float]] = defaultdict(lambda: {"units": 0, "cpu_s": 0.0, "peak_mib": 0})
    for line in map(json.loads, lines):
        module = modules[owner(line["object"])]
        module["units"] += 1
        module["cpu_s"] = round(module["cpu_s"] + line["cpu_s"], 1)
        module["peak_mib"] = max(module["peak_mib"], line["peak_kib"] // 1024)
    modules.pop("", None)
    (work / "measured.json").write_text(json.dumps(modules, indent=2, sort_keys=True) + "\n", encoding="utf-8")
