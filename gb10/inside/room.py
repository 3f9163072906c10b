"""Inside a build stage: a compiler starts once a job is free, and the memory that its family was measured to need.

    room.py --open DIR --pool POOL --peaks PEAKS.json --jobs N [--ninja]
                                                DIR/ccache then stands for ccache, and DIR/bin/ninja for ninja
    room.py DIR POOL COMPILER [ARGUMENTS…]      what the first calls: wait for room, then the real ccache
    unit_order.py DIR NINJA [ARGUMENTS…]        what the second calls

POOL is a folder of the builder that all its compile stages share, so their compilers together never exceed the jobs and
the memory. Both are files that their users hold locked: the kernel gives back what a killed compiler had. Who finds
nothing in use shares out anew. No link in POOL is followed: stages of unreviewed changes write there, too. What is of
another kind than it should be is removed or passed over.

PEAKS.json has MiB by family (``peaks``), of single ``units`` of a family by their objects, and for any ``other``. A
family is a folder of the object: a module of FlashInfer's or a target of CMake's. Memory is in slots.
Beside others a unit also waits until so much is available now, for what runs outside these stages; alone it always
starts. It changes when a unit is compiled, never into what. What launch.py measures as wall time has the wait in it.
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
LOOK = 0.2  # seconds between two looks for free slots
TOLD = 5  # seconds of waiting that are worth a line in the log


def main() -> int:
    """Open a room, or run a compiler in it; returns the compiler's exit code."""
    if sys.argv[1].startswith("--"):
        options = parse()
        shared = share_out(options.pool, options.jobs)
        furnish(options.open, options.pool, options.peaks, shared)
        if options.ninja:
            order_units(options.open)
        return 0
    room, pool, argv = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
    costs = json.loads((room / "peaks.json").read_text(encoding="utf-8"))
    take(pool, wanted(costs, argv))
    return subprocess.run(["ccache", *argv], check=False).returncode


def parse() -> argparse.Namespace:
    """The command line that opens a room."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("open", "pool", "peaks"):
        parser.add_argument(f"--{name}", type=lambda text: Path(text).absolute(), required=True)
    parser.add_argument("--jobs", type=int, required=True)
    parser.add_argument(
        "--ninja", action="store_true", help="units start in the order of unit_order.py, which lies beside"
    )
    return parser.parse_args()


def share_out(pool: Path, jobs: int) -> dict[str, int]:
    """Make so many jobs, and slots of the memory that is available now, unless a compiler runs by those that exist.

    Returns how many there are, and the MiB of a slot.
    """
    pool.mkdir(parents=True, exist_ok=True)
    with turn(pool):
        if not in_use(pool):
            renew(pool / "jobs", max(1, jobs))
            renew(pool / "slots", max(1, (available() - RESERVE) // SLOT))
        counts = {kind: len(files(pool / kind)) for kind in ("jobs", "slots")}
    return {**counts, "mib": SLOT}


def renew(folder: Path, count: int) -> None:
    """Files that are locked while somebody uses what they stand for."""
    remove(folder)
    folder.mkdir()
    for number in range(count):
        (folder / str(number)).touch()


def furnish(room: Path, pool: Path, peaks: Path, shared: dict[str, int]) -> None:
    """The stage's own folder: what its units need, what is shared out, and the program that stands for ccache."""
    room.mkdir(parents=True)
    (room / "peaks.json").write_bytes(peaks.read_bytes())
    (room / "pool.json").write_text(json.dumps(shared), encoding="utf-8")
    stand_in(room / "ccache", Path(__file__).absolute(), room, pool)


def order_units(room: Path) -> None:
    """The program that stands for ninja; raises SystemExit when there is none to stand for."""
    ninja = shutil.which("ninja")
    if ninja is None:
        raise SystemExit("ninja is not on PATH")
    (room / "bin").mkdir()
    stand_in(room / "bin/ninja", Path(__file__).absolute().with_name("unit_order.py"), room, Path(ninja))


def stand_in(program: Path, *words: Path) -> None:
    """A program that runs a script of ours with these words before its own."""
    called = " ".join(map(str, (sys.executable, "-IS", *words)))
    program.write_text(f'#!/bin/sh\nexec {called} "$@"\n', encoding="utf-8")
    program.chmod(0o755)


@contextmanager
def turn(pool: Path) -> Iterator[None]:
    """One at a time waits for room, the others behind it as they came, so that a large unit's turn comes, too.

    A place in the queue is a locked byte of a file: bytes before it are those of who came earlier.
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
    """An open file of the pool."""
    if not is_file(path):
        remove(path)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW)


def is_file(path: Path) -> bool:
    """Whether it is a file itself, and no link to one."""
    return path.is_file() and not path.is_symlink()


def remove(path: Path) -> None:
    """Remove a folder with all in it, a file, a link or a pipe, if there is one."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def files(folder: Path) -> list[Path]:
    """The jobs or slots in their folder; nothing where no folder is."""
    found = [] if folder.is_symlink() or not folder.is_dir() else folder.iterdir()
    return sorted(path for path in found if is_file(path))


def in_use(pool: Path) -> bool:
    """Whether a compiler holds a job: each that runs has one."""
    jobs = files(pool / "jobs")
    free = [opened for job in jobs if (opened := locked(job)) is not None]
    for opened in free:
        os.close(opened)
    return len(free) < len(jobs)


def available() -> int:
    """MiB of memory that are available now, by Linux's own estimate."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("MemAvailable:"))


def wanted(costs: dict[str, Any], argv: list[str]) -> int:
    """MiB for a compiler's command line: of the first folder of its object that has a name."""
    made = Path(argv[argv.index("-o") + 1] if "-o" in argv else "")
    folders = [part.removesuffix(".dir") for part in made.parts[:-1]]
    family = next((name for name in folders if name in costs["peaks"]), "")
    unit = costs["units"].get(family, {}).get(made.name)
    return int(unit["peak_mib"] if unit else costs["peaks"].get(family, costs["other"]))


def take(pool: Path, mib: int) -> None:
    """Hold a job and slots of that much memory, or all slots, until this process ends."""
    with turn(pool):
        jobs, slots = (files(pool / kind) for kind in ("jobs", "slots"))
        while not any(locked(job) is not None for job in jobs):
            time.sleep(LOOK)
        begin, count = time.monotonic(), min(-(-mib // SLOT), len(slots))
        while not enter(slots, count, mib):
            time.sleep(LOOK)
    waited = time.monotonic() - begin
    if waited >= TOLD:
        print(f"waited {waited:.0f} s for {mib} MiB of memory", file=sys.stderr)


def enter(slots: list[Path], count: int, mib: int) -> bool:
    """Hold that many slots if they are free and, beside other compilers, so much memory is available now."""
    free = [opened for slot in slots if (opened := locked(slot)) is not None]
    fits = len(free) >= count and (len(free) == len(slots) or available() >= mib)
    for opened in free[count if fits else 0 :]:
        os.close(opened)
    return fits


def locked(slot: Path) -> int | None:
    """The open, locked file of a free slot or job."""
    opened = os.open(slot, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(opened)
        return None
    return opened


if __name__ == "__main__":
    sys.exit(main())
