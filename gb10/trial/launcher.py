"""A server that is launched to be measured: by a command, by a recipe, or one that runs already."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Final

from gb10.host.fetch import redact


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """A healthy server."""

    url: str
    facts: Mapping[str, object] = field(default_factory=dict)
    """What ran: the command, the image and its digest, the settings."""
    log: Callable[[], Sequence[str]] = tuple
    """The lines of its log so far."""
    ended: Callable[[], str] = str
    """How it ended; empty while it runs."""


SECRET: Final = re.compile(r"TOKEN|KEY|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)


def shown(environment: Mapping[str, str]) -> dict[str, str]:
    """Variables as a result may have them: the values of those that sound secret are left out. Pure."""
    return {name: "***" if SECRET.search(name) else value for name, value in environment.items()}


Launcher = Callable[[], AbstractContextManager[Launched]]
"""Starts a server and ends it with the context. Raises ServeError with the line of its log that tells why."""


def running_already(url: str) -> Launcher:
    """The launcher of an endpoint that is not ours to start."""

    @contextmanager
    def launch() -> Iterator[Launched]:
        yield Launched(url=url, facts={"endpoint": redact(url)})

    return launch
