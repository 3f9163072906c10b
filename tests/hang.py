"""What only a hang breaks. Tests hold what was done, not how fast: that depends on what else runs."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

import pytest

HANG: Final = 120.0
"""Seconds of CPU. What is held to it needs one or two; a loop that grows with the square of its input needs an hour."""
PATIENCE: Final = 180.0
"""Seconds until something that other processes do is given up; a busy machine takes a tenth of it."""
MOST: Final = 9
"""A text four times as long takes at most so many times as long."""
QUICK: Final = 0.01
"""Seconds of CPU below which a ratio says nothing."""


@contextmanager
def no_hang() -> Iterator[None]:
    """End what takes HANG in this context; also a decorator of a test."""

    def end(number: int, frame: FrameType | None) -> None:
        pytest.fail(f"it takes more than {HANG:.0f} s of CPU")

    before = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, HANG)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def cpu(act: Callable[[str], object], text: str) -> float:
    """Seconds of CPU."""
    begun = time.process_time()
    act(text)
    return time.process_time() - begun


def grown(act: Callable[[str], object], piece: str, size: int) -> float:
    """How many times as long a text takes that is four times as long; the least of twelve tries."""
    found = []
    for _ in range(12):  # other programs empty the caches of a busy machine, and the longer text pays for it
        large = cpu(act, piece * (4 * size // len(piece)))
        found.append(large / max(cpu(act, piece * (size // len(piece))), QUICK / 4))
        if large < QUICK or found[-1] <= MOST:
            return 0.0
    return min(found)


def until(ready: Callable[[], object], what: str, *, seconds: float = PATIENCE) -> None:
    """Wait for what other processes do."""
    end = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not in {seconds:.0f} s")
        time.sleep(0.02)
