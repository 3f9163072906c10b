"""Work that must end in time, whatever a server does: it sends nothing, a byte a second, or asks to wait."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as WaitError
from typing import TypeVar

T = TypeVar("T")


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
