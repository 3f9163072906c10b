"""Inside a build stage: a compiler starts once a job and the memory measured for its family are free.

    compile_slots.py --open DIR --pool POOL --peaks PEAKS.json --jobs N [--ninja]
                            writes DIR/ccache, which stands for ccache, and DIR/bin/ninja, which stands for ninja
    compile_slots.py DIR POOL COMPILER [ARGUMENTS…]
                            what DIR/ccache runs: acquires a job and slots, then runs the real ccache
    unit_order.py DIR NINJA [ARGUMENTS…]
                            what DIR/bin/ninja runs

POOL is a folder of the builder. All its compile stages share it, so their compilers together never exceed the jobs and
the memory. Jobs and slots of memory are files, and a user holds its file locked: when a compiler is killed, the kernel
unlocks them. A stage that finds no job in use creates jobs and slots again. No link in POOL is followed, because stages
of unreviewed changes write there, too; a path of another kind than expected is removed or ignored.

PEAKS.json: MiB by family (``peaks``), MiB of single objects of a family (``units``), MiB for all others (``other``). A
family is a folder of the object: a module of FlashInfer or a target of CMake. A slot is SLOT MiB.
A unit also waits until that much memory is available now, unless no other compiler runs. This decides when a unit is
compiled, never its bytes. The wall time that launch.py measures includes the waiting.
"""

import argparse
import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SLOT = 256  # MiB
RESERVE = 1024  # MiB for what drives the compilers
POLL = 0.2  # seconds between two tries
LOGGED = 5  # seconds of waiting from which the log has a line


def main() -> int:
    """Set up the stage, or run one compiler; returns the compiler's exit code."""
    if sys.argv[1].startswith("--"):
        options = parse()
        shared = create_slots(options.pool, options.jobs)
        write_wrappers(options.open, options.pool, options.peaks, shared)
        if options.ninja:
            write_ninja_wrapper(options.open)
        return 0
    folder, pool, argv = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
    costs = json.loads((folder / "peaks.json").read_text(encoding="utf-8"))
    acquire(pool, memory_for(costs, argv))
    return subprocess.run(["ccache", *argv], check=False).returncode


def parse() -> argparse.Namespace:
    """The command line that sets up a stage."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("open", "pool", "peaks"):
        parser.add_argument(f"--{name}", type=lambda text: Path(text).absolute(), required=True)
    parser.add_argument("--jobs", type=int, required=True)
    parser.add_argument("--ninja", action="store_true", help="units start in the order of unit_order.py")
    return parser.parse_args()


def create_slots(pool: Path, jobs: int) -> dict[str, int]:
    """Create the files of that many jobs, and of slots for the available memory, unless a compiler uses the old ones.

    Returns the numbers of ``jobs`` and ``slots``, and the MiB of a slot (``mib``).
    """
    pool.mkdir(parents=True, exist_ok=True)
    with in_queue(pool):
        if not in_use(pool):
            create_files(pool / "jobs", max(1, jobs))
            create_files(pool / "slots", max(1, (available() - RESERVE) // SLOT))
        counts = {kind: len(files(pool / kind)) for kind in ("jobs", "slots")}
    return {**counts, "mib": SLOT}


def create_files(folder: Path, count: int) -> None:
    """Replace a folder by one with ``count`` empty files, each to be locked by its user."""
    remove(folder)
    folder.mkdir()
    for number in range(count):
        (folder / str(number)).touch()


def write_wrappers(folder: Path, pool: Path, peaks: Path, shared: dict[str, int]) -> None:
    """The stage's folder: the memory of its units, the numbers of jobs and slots, and the wrapper of ccache."""
    folder.mkdir(parents=True)
    (folder / "peaks.json").write_bytes(peaks.read_bytes())
    (folder / "pool.json").write_text(json.dumps(shared), encoding="utf-8")
    write_wrapper(folder / "ccache", Path(__file__).absolute(), folder, pool)


def write_ninja_wrapper(folder: Path) -> None:
    """The wrapper of ninja; raises SystemExit when there is no ninja on PATH."""
    ninja = shutil.which("ninja")
    if ninja is None:
        raise SystemExit("ninja is not on PATH")
    (folder / "bin").mkdir()
    write_wrapper(folder / "bin/ninja", Path(__file__).absolute().with_name("unit_order.py"), folder, Path(ninja))


def write_wrapper(program: Path, *words: Path) -> None:
    """A shell script that runs ``words`` by this Python, with its own arguments behind them."""
    called = " ".join(map(str, (sys.executable, "-IS", *words)))
    program.write_text(f'#!/bin/sh\nexec {called} "$@"\n', encoding="utf-8")
    program.chmod(0o755)


@contextmanager
def in_queue(pool: Path) -> Iterator[None]:
    """Hold the pool alone, first come, first served, so that a large unit is not overtaken for ever.

    A place in the queue is a locked byte of the file ``queue``; the bytes before it belong to those who came earlier.
    """
    queue, served = (lock_file(pool / name) for name in ("queue", "turn"))
    try:
        fcntl.flock(queue, fcntl.LOCK_EX)
        place = time.monotonic_ns()
        fcntl.lockf(queue, fcntl.LOCK_EX, 1, place)
        fcntl.flock(queue, fcntl.LOCK_UN)
        fcntl.lockf(queue, fcntl.LOCK_SH, place, 0)
        fcntl.flock(served, fcntl.LOCK_EX)
        yield
    finally:
        os.close(queue)
        os.close(served)


def lock_file(path: Path) -> int:
    """A file of the pool, opened; what is no plain file at its path is removed first."""
    if not is_file(path):
        remove(path)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW)


def is_file(path: Path) -> bool:
    """Whether it is a plain file, and no link to one."""
    return path.is_file() and not path.is_symlink()


def remove(path: Path) -> None:
    """Remove a folder with its content, or a file, link or pipe, if there is one."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def files(folder: Path) -> list[Path]:
    """The jobs or slots in their folder; none if there is no such folder."""
    found = [] if folder.is_symlink() or not folder.is_dir() else folder.iterdir()
    return sorted(path for path in found if is_file(path))


def in_use(pool: Path) -> bool:
    """Whether a compiler runs: each holds a job."""
    jobs = files(pool / "jobs")
    free = [opened for job in jobs if (opened := try_lock(job)) is not None]
    for opened in free:
        os.close(opened)
    return len(free) < len(jobs)


def available() -> int:
    """MiB of memory available now (MemAvailable of /proc/meminfo)."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("MemAvailable:"))


def memory_for(costs: dict[str, Any], argv: list[str]) -> int:
    """MiB for a compiler's command line: of its object, or of the first folder of it that is a known family."""
    made = Path(argv[argv.index("-o") + 1] if "-o" in argv else "")
    folders = [part.removesuffix(".dir") for part in made.parts[:-1]]
    family = next((name for name in folders if name in costs["peaks"]), "")
    unit = costs["units"].get(family, {}).get(made.name)
    return int(unit["peak_mib"] if unit else costs["peaks"].get(family, costs["other"]))


def acquire(pool: Path, mib: int) -> None:
    """Hold a job, and slots for that much memory or all slots, until this process ends."""
    with in_queue(pool):
        jobs, slots = (files(pool / kind) for kind in ("jobs", "slots"))
        while not any(try_lock(job) is not None for job in jobs):
            time.sleep(POLL)
        begin, count = time.monotonic(), min(-(-mib // SLOT), len(slots))
        while not acquire_slots(slots, count, mib):
            time.sleep(POLL)
    waited = time.monotonic() - begin
    if waited >= LOGGED:
        print(f"waited {waited:.0f} s for {mib} MiB of memory", file=sys.stderr)


def acquire_slots(slots: list[Path], count: int, mib: int) -> bool:
    """Hold ``count`` slots if that many are free and, unless all are, ``mib`` of memory are available now."""
    free = [opened for slot in slots if (opened := try_lock(slot)) is not None]
    fits = len(free) >= count and (len(free) == len(slots) or available() >= mib)
    for opened in free[count if fits else 0 :]:
        os.close(opened)
    return fits


def try_lock(slot: Path) -> int | None:
    """The opened and locked file of a slot or job; None when another process holds it."""
    opened = os.open(slot, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(opened)
        return None
    return opened


if __name__ == "__main__":
    sys.exit(main())
