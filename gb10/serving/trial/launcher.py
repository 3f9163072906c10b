"""A server that is launched to be measured: by a command, by a recipe, or one that runs already."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from gb10.core.fetch import redact


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """A healthy server."""

    url: str
    facts: Mapping[str, object] = field(default_factory=dict)
    """What ran: the command, the image and its digest, the settings."""
    log: Callable[[], Sequence[str]] = tuple
    """The lines of its log so far; of several ranks, the head's."""
    logs: Callable[[], Mapping[str, Sequence[str]]] = dict
    """The lines of each rank, by ``rank N on HOST``; empty where there is one log."""
    ended: Callable[[], str] = str
    """How it ended; empty while it runs."""


Launcher = Callable[[], AbstractContextManager[Launched]]
"""Starts a server and ends it with the context. Raises ServeError with the line of its log that tells why."""


def running_already(url: str) -> Launcher:
    """The launcher of an endpoint that is not ours to start."""

    @contextmanager
    def launch() -> Iterator[Launched]:
        yield Launched(url=url, facts={"endpoint": redact(url)})

    return launch
