"""Pulls and cache exports in a build: while it only waits for a registry, its progress is watched.

A compile may be silent for hours.
"""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gb10.containers.buildx.build_cache import EXPORT, IMPORT
from gb10.containers.buildx.progress import Event, StepDone, StepFailed, StepStarted, Transfer
from gb10.errors import BuildError

PATIENCE: Final = 900.0
"""Seconds without progress after which a pull is given up; unpacking a large layer shows none for minutes."""
LAYER: Final = 7200.0
"""The same for one layer of a cache's export, of which BuildKit reports only start and end: 9 GB at 10 Mbit/s."""
STEPS: Final = re.compile(
    rf"{IMPORT}|{EXPORT}|\[internal\] load metadata for|resolve image config for|docker-image://|\[[^\]]*\] FROM "
)
"""How BuildKit names the steps that only read from a registry, or write a cache to it."""


@dataclass(slots=True)
class Pulls:
    """What runs, and how far each transfer is. BuildKit repeats the figures of a pull that stands still."""

    running: set[str] = field(default_factory=set)
    done: dict[tuple[str, str], tuple[int, bool]] = field(default_factory=dict)
    news: int = 0
    clock: Callable[[], float] = time.monotonic
    since: float = 0.0
    """When the last news came."""

    def take(self, event: Event) -> None:
        """One more event."""
        match event:
            case StepStarted(step):
                self.running.add(step)
            case StepDone(step) | StepFailed(step):
                self.running.discard(step)
            case Transfer(step, what, done, _, whole):
                if self.done.get((step, what)) == (done, whole):
                    return
                self.done[step, what] = done, whole
            case _:
                pass
        self.news += 1
        self.since = self.clock()

    @property
    def waiting(self) -> tuple[str, ...]:
        """The steps that run, if all of them only wait for a registry."""
        steps = tuple(self.running)
        return steps if all(map(STEPS.match, steps)) else ()

    @property
    def exporting(self) -> bool:
        """Whether one of them writes a cache."""
        return any(step.startswith(EXPORT) for step in self.waiting)

    def sign(self, _: int) -> object:
        """The sign of life for ``IdleTimeout``: always another one while a step runs that may be silent."""
        in_time = self.exporting and self.clock() - self.since < LAYER - PATIENCE
        return self.news if self.waiting and not in_time else object()

    def error(self, target: str, log: Path) -> BuildError:
        """The error of a build that was ended because it only waited."""
        what, hint = f"a registry sent nothing for {PATIENCE:.0f} s", "that registry, then run the command again"
        if self.exporting:
            what = f"a cache export finished no layer for {LAYER:.0f} s"
            hint = "that cache, then run the command again, or without --cache-to"
        return BuildError(
            f"{what}: the build of {target} was ended",
            where="\n".join([*sorted(self.waiting), f"log: {log}"]),
            hint=f"check the network to {hint}: finished steps are kept",
        )
