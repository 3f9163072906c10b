"""The edge of this wing: a child that failed leaves it as an EngineError."""

from collections.abc import Iterator
from contextlib import contextmanager

from gb10.core.proc import CommandFailedError
from gb10.errors import EngineError


@contextmanager
def explained(message: str, *, hint: str) -> Iterator[None]:
    """Turns a CommandFailedError into an EngineError with the command and its last lines."""
    try:
        yield
    except CommandFailedError as error:
        raise EngineError(message, where=f"{error}\n{error.tail}".rstrip(), hint=hint) from error
