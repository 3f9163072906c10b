"""Retries: a transfer that broke off is tried again after a pause, with a note, unless the engine did that already."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from gb10.containers.registry.transfer import Moves
from gb10.core.proc import SILENT, CommandFailedError
from gb10.core.reporter import Reporter, Task
from gb10.errors import FULL_DISK, PublishError

PAUSES = (2.0, 4.0)  # seconds before the second and the third try
REFUSED = (
    "denied",
    "unauthorized",
    "authentication required",
    "no basic auth credentials",
    "not found",
    "manifest unknown",
    "name unknown",
    "name invalid",
    "registry refused",
)
AGAIN = "publish it again: layers that the registry has are not sent again"


@contextmanager
def not_published(name: str) -> Iterator[None]:
    """Turn the error of a transfer that failed for good into that of the name to be published."""
    try:
        yield
    except PublishError as error:
        where = "\n".join(filter(None, (error.message, error.where)))
        raise PublishError(f"{name} is not published", where=where, hint=error.hint or AGAIN) from error


def patiently(
    reporter: Reporter, task: Task, transfer: Callable[[Moves], None], on_whole: Callable[[int], None] = lambda _: None
) -> Moves:
    """The moves of a transfer that succeeded at last: what arrived stays. Raises PublishError.

    What another try cannot mend is not tried again, nor a layer that the engine gave up after pauses of its own, nor
    a transfer that moved nothing for as long as it may.
    """
    pauses = list(PAUSES)
    while True:
        moves = Moves(
            on_move=partial(reporter.update, task),
            on_whole=on_whole,
            on_pause=lambda text: reporter.say(f"{task.name}: {text}"),
        )
        try:
            transfer(moves)
            return moves
        except PublishError as error:
            if not pauses or moves.retried or stalled(error) or tells(error, FULL_DISK + REFUSED):
                raise
            pause = pauses.pop(0)
            reporter.say(f"{task.name}: {error.message}; trying again in {pause:.0f} s")
        time.sleep(pause)


def stalled(error: PublishError) -> bool:
    """Whether the program that moves the bytes was ended because it was silent."""
    cause = error.__cause__
    return isinstance(cause, CommandFailedError) and cause.returncode == SILENT


def tells(error: PublishError, words: tuple[str, ...]) -> bool:
    """Whether the error speaks of any of these."""
    text = f"{error.message}\n{error.where or ''}".lower()
    return any(word in text for word in words)
