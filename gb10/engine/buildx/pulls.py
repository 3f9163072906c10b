"""Pulls in a build: while it only waits for a registry, its progress is watched. A compile may be silent for hours."""

import re
from dataclasses import dataclass, field
from typing import Final

from gb10.engine.buildx.cache_options import IMPORT
from gb10.engine.buildx.progress import Event, StepDone, StepFailed, StepStarted, Transfer

PATIENCE: Final = 900.0
"""Seconds without progress after which a pull is given up; unpacking a large layer shows none for minutes."""
STEPS: Final = re.compile(
    rf"{IMPORT}|\[internal\] load metadata for|resolve image config for|docker-image://|\[[^\]]*\] FROM "
)
"""How BuildKit names the steps that read from a registry. One that writes to it compresses first, without a sign."""


@dataclass(slots=True)
class Pulls:
    """What runs, and how far each transfer is. BuildKit repeats the figures of a pull that stands still."""

    running: set[str] = field(default_factory=set)
    done: dict[tuple[str, str], int] = field(default_factory=dict)
    news: int = 0

    def take(self, event: Event) -> None:
        """One more event."""
        match event:
            case StepStarted(step):
                self.running.add(step)
            case StepDone(step) | StepFailed(step):
                self.running.discard(step)
            case Transfer(step, what, done):
                if self.done.get((step, what)) == done:
                    return
                self.done[step, what] = done
            case _:
                pass
        self.news += 1

    @property
    def waiting(self) -> tuple[str, ...]:
        """The steps that run, if all of them read from a registry."""
        steps = tuple(self.running)
        return steps if all(map(STEPS.match, steps)) else ()

    def sign(self, _: int) -> object:
        """The sign of life for ``Patience``: always another one while a step runs that may be silent."""
        return self.news if self.waiting else object()
