"""Work in several threads that ends together, in time, and when it shows no progress."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, CancelledError, Future, ThreadPoolExecutor, wait
from concurrent.futures import TimeoutError as WaitError
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event, Lock, Thread
from typing import TypeVar

Item = TypeVar("Item")
T = TypeVar("T")


class Stop:
    """Set once, by the side that fails first."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._set = False
        self._ends: list[Callable[[], object]] = []

    def set(self) -> None:
        """End what is registered now, and what registers later."""
        with self._lock:
            self._set = True
            for end in self._ends:
                end()

    def check(self) -> None:
        """Raise CancelledError once the stop is set."""
        if self._set:
            raise CancelledError

    @contextmanager
    def ends(self, end: Callable[[], object]) -> Iterator[None]:
        """Call ``end`` when the stop is set while this context lasts, or at once if it is set already."""
        with self._lock:
            self._ends.append(end)
            if self._set:
                end()
        try:
            yield
        finally:
            with self._lock:
                self._ends.remove(end)


@contextmanager
def run_in_background(stop: Stop, work: Callable[[], T]) -> Iterator[Future[T]]:
    """Do ``work`` in a thread while the context lasts; the first failure stops both sides, and is raised."""
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(work)
        future.add_done_callback(lambda done: stop.set() if done.exception() else None)
        try:
            yield future
        except CancelledError:
            future.result()
            raise
        except BaseException:
            stop.set()
            raise


def run_all(stop: Stop, works: Sequence[Callable[[], T]]) -> tuple[T, ...]:
    """Do each work in a thread, and return their results in order; the first failure stops all, and is raised."""
    with ThreadPoolExecutor(max(1, len(works))) as pool:
        try:
            futures = [pool.submit(work) for work in works]
            ended = wait(futures, return_when=FIRST_EXCEPTION).done
            failures = [error for future in ended if (error := future.exception()) is not None]
            if failures:
                raise next((error for error in failures if not isinstance(error, CancelledError)), failures[0])
            return tuple(future.result() for future in futures)
        except BaseException:
            stop.set()
            raise


def map_parallel(stop: Stop, work: Callable[[Item], T], items: Sequence[Item], most: int) -> list[T]:
    """The results of ``work`` for each item in order, by at most so many threads; the first failure ends all."""
    todo, done = SimpleQueue[int](), dict[int, T]()
    for index in range(len(items)):
        todo.put(index)

    def take() -> None:
        with suppress(Empty):
            while True:
                index = todo.get_nowait()
                stop.check()
                done[index] = work(items[index])

    run_all(stop, [take] * min(most, len(items)))
    return [done[index] for index in range(len(items))]


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


class LateError(Exception):
    """The work had not ended in its time."""


def within(seconds: float, act: Callable[[], T]) -> T:
    """The result of ``act``, or what it raises; raises LateError after so many seconds.

    It runs in a thread of its own, which is left alone when it is late, and ends with the process.
    """
    result: Future[T] = Future()

    def work() -> None:
        try:
            result.set_result(act())
        except BaseException as error:  # all that it raises is raised where it was asked for
            result.set_exception(error)

    threading.Thread(target=work, daemon=True, name="within").start()
    try:
        return result.result(timeout=max(0.0, seconds))
    except WaitError:
        if result.done():
            raise
        raise LateError from None
