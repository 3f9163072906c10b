"""The processes of one embedded engine, identified by program file, run directory and cgroup."""

import os
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")
DAEMONS = ("dockerd", "containerd", "containerd-shim-runc-v2", "runc")
POLL = 0.1  # seconds


def daemons(programs: Iterable[Path], run: Path) -> dict[int, str]:
    """Pid to program of the daemons that run one of these files with ``run`` in their arguments."""
    files = {_identity(path): path.name for path in programs if path.name in DAEMONS}
    found: dict[int, str] = {}
    for pid in _pids():
        with suppress(OSError):
            # By inode: the path that /proc shows is another one from inside a chroot or a mount namespace.
            program = files.get(_identity(PROC / str(pid) / "exe"))
            arguments = (PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace")
            if program and str(run) in arguments:
                found[pid] = program
    return found


def members(cgroup: str) -> list[int]:
    """Pids inside the cgroup of that name, at any depth, in any hierarchy: containers and build steps."""
    found = []
    for pid in _pids():
        with suppress(OSError):
            lines = (PROC / str(pid) / "cgroup").read_text(encoding="utf-8").splitlines()
            if any(cgroup in line.split(":", 2)[2].split("/") for line in lines):
                found.append(pid)
    return found


def alive(pid: int) -> bool:
    """Whether the process exists and is no zombie."""
    try:
        stat = (PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")


def end(pids: list[int], number: signal.Signals, seconds: float) -> list[int]:
    """Signal the processes and wait for their end; returns those that remain."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
    deadline = time.monotonic() + seconds
    while (left := [pid for pid in pids if alive(pid)]) and time.monotonic() < deadline:
        time.sleep(POLL)
    return left


def _identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino


def _pids() -> Iterator[int]:
    return (int(path.name) for path in PROC.iterdir() if path.name.isdigit())
