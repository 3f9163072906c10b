"""Inside a build stage: a compiler starts once the memory that its family was measured to need is free.

    room.py --open DIR --peaks PEAKS.json     share out this machine's memory; DIR/ccache then stands for ccache
    room.py DIR COMPILER [ARGUMENTS…]         what DIR/ccache calls: wait for room, then ccache with the same words

PEAKS.json has MiB by family (``peaks``), and for any ``other``. A family is a folder of the object that is compiled: a
module of FlashInfer's, a target of CMake's. Memory is counted in slots, files that their users hold locked, so that
the kernel gives back what a killed compiler had. Beside others a unit also waits until so much is available now, for
what runs outside this stage; alone it always starts. It changes when a unit is compiled, never into what. What
launch.py measures as wall time has the wait in it.
"""

import fcntl
import json
import os
import subprocess
import sys
import time
from pathlib import Path

SLOT = 256  # MiB
RESERVE = 1024  # MiB for what drives the compilers
LOOK = 0.2  # seconds between two looks for free slots
TOLD = 5  # seconds of waiting that are worth a line in the log


def main() -> int:
    """Open a room, or run a compiler in it; returns the compiler's exit code."""
    if sys.argv[1] == "--open":
        open_room(Path(sys.argv[2]), Path(sys.argv[4]))
        return 0
    room, argv = Path(sys.argv[1]), sys.argv[2:]
    costs = json.loads((room / "peaks.json").read_text(encoding="utf-8"))
    take(room, wanted(costs["peaks"], costs["other"], argv))
    return subprocess.run(["ccache", *argv], check=False).returncode


def open_room(room: Path, peaks: Path) -> None:
    """Make the slots of the memory that is available now, and the program that stands for ccache."""
    slots = room / "slots"
    slots.mkdir(parents=True)
    for number in range(max(1, (available() - RESERVE) // SLOT)):
        (slots / str(number)).touch()
    (room / "peaks.json").write_bytes(peaks.read_bytes())
    program = room / "ccache"
    program.write_text(
        f'#!/bin/sh\nexec {sys.executable} -IS {Path(__file__).absolute()} {room} "$@"\n', encoding="utf-8"
    )
    program.chmod(0o755)


def available() -> int:
    """MiB of memory that are available now, by Linux's own estimate."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("MemAvailable:"))


def wanted(peaks: dict[str, int], other: int, argv: list[str]) -> int:
    """MiB for a compiler's command line: of the first folder of its object that has a name."""
    made = argv[argv.index("-o") + 1] if "-o" in argv else ""
    folders = [part.removesuffix(".dir") for part in Path(made).parts[:-1]]
    return next((peaks[name] for name in folders if name in peaks), other)


def take(room: Path, mib: int) -> None:
    """Hold slots of that much memory, or all, until this process ends.

    One at a time waits, the others behind it, so that a large unit's turn comes, too.
    """
    slots, begin = sorted((room / "slots").iterdir()), time.monotonic()
    count = min(-(-mib // SLOT), len(slots))
    with (room / "turn").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
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
    """The open, locked file of a free slot."""
    opened = os.open(slot, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(opened)
        return None
    return opened


if __name__ == "__main__":
    sys.exit(main())
