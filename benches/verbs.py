"""What a verb costs when all is in the store, in units of `python3 -c pass` of the same run.

python3 -m bootstrap benches/verbs.py [--runs 7] [--checkout DIR]...

Prints a row for each verb: the median of wall and of CPU time, in seconds and in units. Of several checkouts (a git
worktree of an older commit, for example) each verb runs in turn, so that other work on the machine meets all of them.
"""

import argparse
import os
import resource
import statistics
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
UNIT = ("python3", "-c", "pass")
LOG = "tests/unit/data/doctor/healthy/made-kernel.log"
VERBS = (
    *("patches status", "cache ls", "plan", "image --dry-run", "wheels --rebuild flashinfer --dry-run"),
    *("run qwen3-0.6b --dry-run --no-gpus", "recipe list", "recipe show qwen3-0.6b", "recipe lint qwen3-0.6b"),
    *("recipe memory qwen3-0.6b", "recipe render qwen3-0.6b", f"doctor --log {LOG}", "--help"),
)


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--checkout", type=Path, action="append", help="Default: this one. Repeatable.")
    given = parser.parse_args()
    checkouts = given.checkout or [ROOT]
    # The bootstrap's own environment would spare a verb its first exec.
    unit = [measure(UNIT, ROOT) for _ in range(3 * given.runs)]
    wall, cpu = (statistics.median(column) for column in zip(*unit, strict=True))
    print(f"{'python3 -c pass':38} {wall:7.3f} s {cpu:7.3f} CPU s", flush=True)
    for verb in VERBS:
        times: dict[Path, list[tuple[float, float]]] = {checkout: [] for checkout in checkouts}
        for run in range(given.runs + 1):
            for checkout in checkouts:
                one = measure(("python3", "build.py", *verb.split()), checkout)
                if run:  # the first one fills the caches and is not counted
                    times[checkout].append(one)
        for checkout in checkouts:
            own_wall, own_cpu = (statistics.median(column) for column in zip(*times[checkout], strict=True))
            units = f"{own_wall / wall:6.1f} units {own_cpu / cpu:6.1f} CPU units"
            name = f"{verb.partition(' tests/')[0]}{f' ({checkout.name})' if len(checkouts) > 1 else ''}"
            print(f"{name:38} {own_wall:7.3f} s {own_cpu:7.3f} CPU s {units}", flush=True)


def measure(command: Sequence[str], folder: Path) -> tuple[float, float]:
    """Seconds of wall time, and of CPU time with all children; raises CalledProcessError."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(command, cwd=folder, capture_output=True, env=env, check=False)
    wall, after = time.monotonic() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 3):  # 3: nothing to do
        raise subprocess.CalledProcessError(done.returncode, command, done.stdout, done.stderr)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
