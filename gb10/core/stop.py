"""A stop: work in several threads that ends together, children at once and loops when they look."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from threading import Lock
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
def beside(stop: Stop, work: Callable[[], T]) -> Iterator[Future[T]]:
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


def together(stop: Stop, works: Sequence[Callable[[], T]]) -> tuple[T, ...]:
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


def spread(stop: Stop, work: Callable[[Item], T], items: Sequence[Item], most: int) -> list[T]:
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

    together(stop, [take] * min(most, len(items)))
    return [done[index] for index in range(len(items))]
