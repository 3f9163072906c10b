"""A session of processes, ended as a whole; and one that a killed run left behind, known by when its leader started."""

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gb10.core.proc import not_run, spawn

PATIENCE: Final = 20.0
"""Seconds that a session gets to end after SIGTERM, and again after SIGKILL."""
LOOK: Final = 0.1
PROC: Final = Path("/proc")
SESSION, STARTED = 3, 19
"""Fields of /proc/PID/stat, counted from the state."""


@dataclass(slots=True)
class Leader:
    """The first process of a session, a child of this one."""

    pid: int
    code: int | None = None
    """How it ended, once it did; a signal is negative."""

    def poll(self) -> int | None:
        """How it ended; None while it runs."""
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.code = os.waitstatus_to_exitcode(status) if pid else None
        return self.code


@contextmanager
def leading(argv: Sequence[str], *, log: Path, env: Mapping[str, str]) -> Iterator[Leader]:
    """A server in a session of its own, output appended to ``log``; it and all that it started end with the context.

    Raises CommandFailedError when it cannot be started.
    """
    try:
        leader = Leader(spawn(argv, log=log, env=env))
    except OSError as error:
        raise not_run(argv, error) from error
    try:
        yield leader
    finally:
        end_session(leader.pid, leader.poll)
        leader.poll()


def end_session(leader: int, reap: Callable[[], object] = lambda: None, patience: float = PATIENCE) -> None:
    """SIGTERM for every process of a session; after ``patience`` seconds SIGKILL for those that are left.

    ``reap`` is called while it waits.
    """
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + patience
        for pid in _members(leader):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        while any(_members(leader)):
            if time.monotonic() > deadline:
                break
            time.sleep(LOOK)
            reap()
        else:
            return


def started(pid: int) -> int | None:
    """When a process started, in ticks since the boot; None when there is none."""
    fields = _stat(PROC / str(pid))
    return int(fields[STARTED]) if fields else None


def _members(leader: int) -> Iterator[int]:
    """The processes of a session that still run."""
    for path in PROC.glob("[0-9]*"):
        fields = _stat(path)
        if fields and fields[SESSION] == str(leader) and fields[0] != "Z":
            yield int(path.name)


def _stat(path: Path) -> list[str]:
    """The fields after the name, which may have blanks and parentheses in it; none when the process is gone."""
    try:
        return (path / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return []
