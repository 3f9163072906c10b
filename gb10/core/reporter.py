"""Reporter: all messages for a person, on stderr: live bars on a terminal, plain lines elsewhere."""

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Protocol

from rich.console import Console
from rich.markup import escape

from gb10.core.installation import as_started
from gb10.core.printing import visible

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

QUIET, NORMAL, VERBOSE = -1, 0, 1
PIPED_WIDTH = 160  # columns of a table that neither a terminal nor $COLUMNS bounds
PLAIN_INTERVAL = 15.0  # seconds between two plain progress lines of one task
LONG_WAIT = 10.0  # seconds after which a wait is reported even when quiet
ESTIMATE_FROM = 0.1  # the done share from which the speed so far is a usable estimate


def terminal(env: Mapping[str, str], *, stderr: bool) -> Console:
    """A console that obeys NO_COLOR over FORCE_COLOR over the terminal."""
    bounded = (sys.stderr if stderr else sys.stdout).isatty() or env.get("COLUMNS")
    forced = True if env.get("FORCE_COLOR") and not env.get("NO_COLOR") else None
    return Console(
        stderr=stderr,
        no_color=bool(env.get("NO_COLOR")) or None,
        force_terminal=forced,
        highlight=False,
        emoji=False,
        width=None if bounded else PIPED_WIDTH,
    )


@dataclass(frozen=True, slots=True)
class Timing:
    """How long a phase took, in seconds, whether it was a cache hit, and when it began, in seconds from the start."""

    name: str
    seconds: float
    hit: bool
    start: float = 0.0


class Outlook(Protocol):
    """What is expected of all work beside a task, and of the task's own."""

    def share(self) -> str:
        """``31 % of the work``."""

    def left(self) -> str:
        """``about 3:10 left in all``; empty while nothing is known."""


@dataclass(slots=True)
class Task:
    """One piece of running work; safe to advance from several threads."""

    name: str
    unit: str
    total: float
    outlook: Outlook | None = None
    """Knows what its units were measured to take: their count says little about the rest."""
    done: float = 0
    note: str = ""
    started: float = field(default_factory=time.monotonic)
    said: float = field(default_factory=time.monotonic)
    bar: "TaskID | None" = None
    ended: threading.Event = field(default_factory=threading.Event)

    def text(self) -> str:
        """``compile  12 of 40 files  norm.cu  0:35  about 1:22 left``."""
        return joined(self.name, self.amount(), self.note, clock(self.elapsed()), self.left())

    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.started

    def left(self) -> str:
        """``about 3:10 left``, from measured times, else from the speed so far; empty while there is no estimate."""
        if self.outlook is not None:
            return self.outlook.left()
        seconds = remaining(self.elapsed(), self.done, self.total)
        return f"about {clock(seconds)} left" if seconds is not None else ""

    def amount(self) -> str:
        """The share of the work where it is known, and done of total, with the unit."""
        return joined(self.outlook.share() if self.outlook else "", self._counted())

    def _counted(self) -> str:
        if self.unit == "B":
            return f"{self.done / 1e6:,.0f} of {self.total / 1e6:,.0f} MB" if self.total else ""
        return f"{self.done:,.0f} of {self.total:,.0f} {self.unit}" if self.total else ""


def remaining(elapsed: float, done: float, total: float) -> float | None:
    """Seconds that the rest takes at the speed so far; None before a tenth is done, and at the end."""
    if not ESTIMATE_FROM * total <= done < total:
        return None
    return elapsed * (total - done) / done


def clock(seconds: float) -> str:
    """``3:10``, ``1:02:05``."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def joined(*parts: str) -> str:
    """The parts that say something, two spaces between them."""
    return "  ".join(part for part in parts if part)


class Reporter:
    """Phases, bars and lines; ``verbosity`` is QUIET, NORMAL or VERBOSE, ``interval`` in seconds is of plain lines."""

    def __init__(self, env: Mapping[str, str], *, verbosity: int = NORMAL, interval: float = PLAIN_INTERVAL) -> None:
        self.console = terminal(env, stderr=True)
        self.verbosity = verbosity
        self.interval = interval
        self.lines = 0
        self.timings: list[Timing] = []
        self.running: list[Task] = []
        self.began = time.monotonic()
        self._once: set[str] = set()
        self._lock = threading.Lock()
        self._live = verbosity >= NORMAL and self.console.is_terminal and sys.stderr.isatty()
        self._progress: Progress | None = None
        self._running = 0

    def say(self, text: str) -> None:
        """One line, unless quiet. ``lines`` counts them, also those that are not printed."""
        self.lines += 1
        if self.verbosity >= NORMAL:
            self.console.print(escape(visible(as_started(text))), soft_wrap=True)

    def say_once(self, text: str) -> None:
        """One line, unless quiet or already printed by this command."""
        if text not in self._once:
            self._once.add(text)
            self.say(text)

    def detail(self, text: str) -> None:
        """One line, only when verbose."""
        if self.verbosity >= VERBOSE:
            self.console.print(escape(visible(as_started(text))), style="dim", soft_wrap=True)

    def waiting_for(self, what: str) -> Callable[[str], AbstractContextManager[None]]:
        """What the store enters while it waits for a lock: a line with its holder; when quiet, only a long wait."""
        return partial(self._wait, what)

    @contextmanager
    def _wait(self, what: str, holder: str) -> Iterator[None]:
        text = escape(visible(f"{what}: waiting for {holder}"))
        late = threading.Timer(LONG_WAIT, self.console.print, (text,), {"soft_wrap": True})
        late.daemon = True
        if self.verbosity >= NORMAL:
            self.console.print(text, soft_wrap=True)
        else:
            late.start()
        try:
            yield
        finally:
            late.cancel()

    def hit(self, name: str) -> None:
        """A cache hit: the result of the step already exists."""
        if all(timing.name != name for timing in self.timings):
            self.timings.append(Timing(name, 0.0, True, time.monotonic() - self.began))
        self.detail(f"{name}: already in the store")

    @contextmanager
    def task(self, name: str, total: float = 0, unit: str = "B", outlook: Outlook | None = None) -> Iterator[Task]:
        """Work with progress; its duration is kept for the summary when it does not fail."""
        task = Task(name, unit, total, outlook)
        self._start(task)
        try:
            yield task
        except BaseException as error:
            self._stop(task, f"{_ending(error)} after ")
            raise
        self.timings.append(Timing(name, task.elapsed(), False, task.started - self.began))
        self._stop(task)

    def advance(self, task: Task, amount: float, note: str = "") -> None:
        """More of a task is done."""
        with self._lock:
            task.done += amount
            task.note = note or task.note
            self._show(task)

    def update(self, task: Task, done: float, total: float, note: str = "") -> None:
        """Report the progress of a task."""
        with self._lock:
            task.done, task.total, task.note = done, total, note or task.note
            self._show(task)

    def _show(self, task: Task) -> None:
        if self._progress is not None and task.bar is not None:
            note = escape(visible(joined(task.amount(), task.left(), task.note)))
            self._progress.update(task.bar, completed=task.done, total=task.total or None, note=note)
        elif time.monotonic() - task.said >= self.interval:
            task.said = time.monotonic()
            self.say(task.text())

    def _beat(self, task: Task) -> None:
        """Show a task that has been silent for an interval, until it ends: a compiler may say nothing for minutes."""
        while not task.ended.wait(max(0.0, task.said + self.interval - time.monotonic())):
            with self._lock:
                if not task.ended.is_set():
                    self._show(task)

    def _start(self, task: Task) -> None:
        with self._lock:
            self.running.append(task)
            if not self._live:
                self.say(f"{task.name} …")
                if self.verbosity >= NORMAL:
                    threading.Thread(target=self._beat, args=(task,), daemon=True).start()
                return
            if self._progress is None:
                from rich.progress import (  # noqa: PLC0415 - for a terminal, when work takes time
                    BarColumn,
                    Progress,
                    TextColumn,
                    TimeElapsedColumn,
                )

                columns = (
                    TextColumn("{task.description}"),
                    BarColumn(24),
                    TimeElapsedColumn(),
                    TextColumn("{task.fields[note]}"),
                )
                self._progress = Progress(*columns, console=self.console, transient=True)
                self._progress.start()
            self._running += 1
            task.bar = self._progress.add_task(escape(visible(task.name)), total=task.total or None, note="")

    def _stop(self, task: Task, how: str = "") -> None:
        with self._lock:
            task.ended.set()
            self.running = [one for one in self.running if one is not task]
            if self._progress is not None and task.bar is not None:
                self._progress.remove_task(task.bar)
                self._running -= 1
                if not self._running:
                    self._progress.stop()
                    self._progress = None
            self.say(joined(task.name, task.amount(), f"{how}{task.elapsed():.1f} s"))


def _ending(error: BaseException) -> str:
    """How a task ended: another's failure stopped it, the user interrupted it, or it failed itself."""
    if isinstance(error, CancelledError):
        return "stopped"
    return "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
