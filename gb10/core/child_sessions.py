"""Child processes that stay: a session ended as a whole, and a dialogue line by line."""

import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from gb10.core.proc import not_run, spawn

PATIENCE: Final = 20.0
"""Seconds that a session gets to end after SIGTERM, and again after SIGKILL."""
LOOK: Final = 0.1
PROC: Final = Path("/proc")
PARENT, SESSION, STARTED = 1, 3, 19
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
        deadline = time.monotonic() + PATIENCE
        while leader.poll() is None and time.monotonic() < deadline:
            time.sleep(LOOK)  # Linux shows it as ended before its last threads are, and has its status after them


def end_session(leader: int, reap: Callable[[], object] = lambda: None, patience: float = PATIENCE) -> None:
    """SIGTERM for every process of a session; after ``patience`` seconds SIGKILL for those that are left.

    ``reap`` is called while it waits.
    """
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + patience
        for pid in members(leader):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        while any(members(leader)):
            if time.monotonic() > deadline:
                break
            time.sleep(LOOK)
            reap()
        else:
            return


def started(pid: int) -> int | None:
    """When a process started, in ticks since the boot; None when there is none."""
    fields = stat_fields(PROC / str(pid))
    return int(fields[STARTED]) if fields else None


def members(leader: int) -> Iterator[int]:
    """The processes of a session that still run: not those that have ended and that nobody has reaped."""
    for path in PROC.glob("[0-9]*"):
        fields = stat_fields(path)
        if fields and fields[SESSION] == str(leader) and fields[0] != "Z":
            yield int(path.name)


def stat_fields(path: Path) -> list[str]:
    """The fields after the name, which may have blanks and parentheses in it; none when the process is gone."""
    try:
        return (path / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


class Dialogue:
    """A child that prints lines and gets some; it ends when nobody holds the other end of its stdin."""

    def __init__(self, stdin: IO[bytes] | None, stdout: IO[bytes] | None, err: IO[bytes]) -> None:
        if stdin is None or stdout is None:
            raise AssertionError
        self._in, self._out, self._err, self._read = stdin, stdout, err, b""

    def line(self, patience: float) -> str | None:
        """Its next line; None when none comes in so many seconds, an empty one when it has ended."""
        with selectors.DefaultSelector() as pipes:
            pipes.register(self._out, selectors.EVENT_READ)
            deadline = time.monotonic() + patience
            while b"\n" not in self._read:
                if not pipes.select(max(0.0, deadline - time.monotonic())):
                    return None
                block = os.read(self._out.fileno(), 1 << 16)
                if not block:
                    return ""
                self._read += block
        line, _, self._read = self._read.partition(b"\n")
        return line.decode(errors="replace")

    def say(self, line: str) -> None:
        """Give it a line; one that has ended gets nothing."""
        with suppress(BrokenPipeError):
            self._in.write(f"{line}\n".encode())
            self._in.flush()

    def errors(self) -> str:
        """What it printed as errors."""
        self._err.seek(0)
        return self._err.read().decode(errors="replace").strip()


@contextmanager
def dialogue(argv: Sequence[str], *, env: Mapping[str, str]) -> Iterator[Dialogue]:
    """A child to talk with while the context lasts. Ctrl-C does not reach it: it ends by the end of its stdin."""
    with tempfile.TemporaryFile() as err:
        try:
            child = subprocess.Popen(
                argv,
                env=env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=err,
                bufsize=0,
                start_new_session=True,
            )
        except OSError as error:
            raise not_run(argv, error) from error
        with child:
            yield Dialogue(child.stdin, child.stdout, err)
