"""The log of a build: readable lines by step, and what an error must tell."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from gb10.containers.buildx.cache_options import IMPORT
from gb10.containers.buildx.progress import Event, LogLine, Note, StepDone, StepFailed, StepStarted
from gb10.core.proc import TAIL_LINES
from gb10.errors import BuildError

CANCELLED = "context canceled"
"""The error of a step that ended because another one failed."""


@dataclass(slots=True)
class Record:
    """Writes the readable log and remembers what an error must tell."""

    out: TextIO
    log: Path
    on_event: Callable[[Event], None]
    numbers: dict[str, int] = field(default_factory=dict)
    tails: dict[str, deque[str]] = field(default_factory=dict)
    notes: deque[str] = field(default_factory=lambda: deque(maxlen=TAIL_LINES))
    failed: StepFailed | None = None

    def take(self, event: Event) -> None:
        """One more event."""
        match event:
            case StepStarted(step):
                self._write(step, step)
            case StepDone(step, seconds, cached):
                self._write(step, "CACHED" if cached else f"DONE {seconds:.1f}s")
            case StepFailed(step, error):
                first = self.failed is None or self.failed.error.endswith(CANCELLED)
                if first and not step.startswith(IMPORT):
                    self.failed = event
                self._write(step, f"ERROR: {error}")
            case LogLine(step, text):
                self.tails.setdefault(step, deque(maxlen=TAIL_LINES)).append(text)
                self._write(step, text)
            case Note(text):
                self.notes.append(text)
                self.out.write(f"{text}\n")
        self.on_event(event)

    def _write(self, step: str, text: str) -> None:
        number = self.numbers.setdefault(step, len(self.numbers) + 1)
        self.out.write(f"#{number} {text}\n")
        self.out.flush()

    def error(self, target: str) -> BuildError:
        """The failed step with its last lines, else buildx's error text."""
        log = f"log: {self.log}"
        if self.failed is None:
            return BuildError(f"cannot build {target}", where="\n".join([*self.notes, log]))
        lines = self.tails.get(self.failed.step, ())
        return BuildError(
            f"build step failed: {_short(self.failed.step)}",
            where="\n".join([*lines, self.failed.error.rpartition('" ')[2], log]),  # without the script it quotes
        )


def _short(step: str) -> str:
    """A step's name without its mounts and beyond its first line. Pure."""
    words = [word for word in step.partition("\n")[0].split() if not word.startswith("--mount=")]
    return " ".join(words)[:100]
