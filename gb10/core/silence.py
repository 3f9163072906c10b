"""Silence: a child that shows no progress for too long is ended, where its program has no such limit itself."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

LOOKS = 20
"""How often the sign is read within the patience, and at least once a second."""
UNIT = 1 << 16


@dataclass(frozen=True, kw_only=True, slots=True)
class IdleTimeout:
    """A child may run as long as its sign of life changes within so many seconds; ``sign`` gets its pid."""

    seconds: float
    sign: Callable[[int], object]


def moved(pid: int) -> int:
    """How much a process has read and written, files and sockets alike, in units of 64 KiB."""
    try:
        text = Path(f"/proc/{pid}/io").read_text(encoding="ascii")
    except OSError:  # it has ended
        return -1
    counts = dict(line.split(": ") for line in text.splitlines())
    return (int(counts["rchar"]) + int(counts["wchar"])) // UNIT


@contextmanager
def watched(pid: int, patience: IdleTimeout | None, end: Callable[[], None]) -> Iterator[Event]:
    """Calls ``end`` and sets the event when the sign does not change for too long; without patience it never does."""
    over, silent = Event(), Event()

    def watch(limit: IdleTimeout) -> None:
        before, since = limit.sign(pid), time.monotonic()
        while not over.wait(min(1.0, limit.seconds / LOOKS)):
            now = limit.sign(pid)
            if now != before:
                before, since = now, time.monotonic()
            elif time.monotonic() - since > limit.seconds:
                silent.set()
                end()
                return

    thread = Thread(target=watch, args=(patience,), daemon=True) if patience else None
    if thread:
        thread.start()
    try:
        yield silent
    finally:
        over.set()
        if thread:
            thread.join()
