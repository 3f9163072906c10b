"""The progress of a build, as events: BuildKit's rawjson in, values out. Pure."""

import base64
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TextIO

from gb10.core.proc import TAIL_LINES
from gb10.errors import FULL_DISK, BuildError

IMPORT: Final = "importing cache manifest"
"""How BuildKit names the step of an import of a cache, which may fail without failing the build."""
EXPORT: Final = "exporting cache to"
"""How BuildKit names the step of an export of a cache."""


@dataclass(frozen=True, slots=True)
class StepStarted:
    """A step began to run, or began to be looked up."""

    step: str


@dataclass(frozen=True, slots=True)
class StepDone:
    """A step ended well; ``seconds`` is 0 when its result was cached."""

    step: str
    seconds: float
    cached: bool


@dataclass(frozen=True, slots=True)
class StepFailed:
    """A step failed."""

    step: str
    error: str


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line that a step printed."""

    step: str
    text: str


@dataclass(frozen=True, slots=True)
class Transfer:
    """Bytes moved so far; ``total`` is 0 where BuildKit does not know it: it counts no bytes of a cache's export."""

    step: str
    what: str
    done: int
    total: int
    whole: bool = False
    """BuildKit reported its end."""


@dataclass(frozen=True, slots=True)
class Note:
    """A line of buildx itself, outside every step."""

    text: str


Event = StepStarted | StepDone | StepFailed | LogLine | Transfer | Note


@dataclass(slots=True)
class RawJson:
    """The rawjson form: a JSON value on one line, or spread over lines until a brace in the first column."""

    _names: dict[str, str] = field(default_factory=dict)
    _state: dict[str, str] = field(default_factory=dict)
    _partial: dict[str, str] = field(default_factory=dict)
    _pending: list[str] = field(default_factory=list)

    def feed(self, line: str) -> Iterator[Event]:
        """The events of one more line."""
        if not self._pending and not line.startswith("{"):
            yield from [Note(line)] if line.strip() else []
            return
        self._pending.append(line)
        if line == "}" or (len(self._pending) == 1 and line.endswith("}")):
            text, self._pending = "".join(self._pending), []
            yield from self._value(json.loads(text))

    def _value(self, value: dict[str, Any]) -> Iterator[Event]:
        for vertex in value.get("vertexes") or ():
            yield from self._vertex(vertex)
        for status in value.get("statuses") or ():
            what = status.get("name") or status["id"]
            moved = status.get("current", 0), status.get("total", 0)
            yield Transfer(self._name(status["vertex"]), what, *moved, whole=bool(status.get("completed")))
        for log in value.get("logs") or ():
            yield from self._log(log["vertex"], base64.b64decode(log["data"]).decode(errors="replace"))

    def _vertex(self, vertex: dict[str, Any]) -> Iterator[Event]:
        digest, name = vertex["digest"], vertex["name"]
        self._names[digest] = name
        before, state = self._state.get(digest), _vertex_state(vertex)
        self._state[digest] = state
        if state == before or (state == "done" and before != "started"):
            return  # ended without a start: BuildKit only looked for it in its cache
        if state == "started":
            yield StepStarted(name)
        elif state != "waiting":
            yield from self._flush(digest)
            yield _ending(vertex, state)

    def _log(self, digest: str, text: str) -> Iterator[Event]:
        *lines, self._partial[digest] = (self._partial.get(digest, "") + text).split("\n")
        yield from (LogLine(self._name(digest), line.rstrip("\r").rpartition("\r")[2]) for line in lines)

    def _flush(self, digest: str) -> Iterator[Event]:
        rest = self._partial.pop(digest, "")
        if rest:
            yield LogLine(self._name(digest), rest)

    def _name(self, digest: str) -> str:
        return self._names.get(digest, digest)


def _vertex_state(vertex: dict[str, Any]) -> str:
    if vertex.get("error"):
        return "failed"
    if vertex.get("cached"):
        return "cached"
    if vertex.get("completed"):
        return "done"
    return "started" if vertex.get("started") else "waiting"


def _ending(vertex: dict[str, Any], state: str) -> Event:
    if state == "failed":
        return StepFailed(vertex["name"], vertex["error"])
    if state == "cached":
        return StepDone(vertex["name"], 0.0, True)
    seconds = datetime.fromisoformat(vertex["completed"]) - datetime.fromisoformat(vertex["started"])
    return StepDone(vertex["name"], seconds.total_seconds(), False)


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
            message, lines = f"cannot build {target}", [*self.notes]
        else:
            message = f"build step failed: {_short(self.failed.step)}"
            said = self.failed.error.rpartition('" ')[2]  # without the script it quotes
            lines = [*self.tails.get(self.failed.step, ()), said]
        if says_full(lines):
            return full_disk(message, lines, self.log)
        return BuildError(message, where="\n".join([*lines, log]))


def says_full(lines: Iterable[str]) -> bool:
    """Whether a program says that a disk is full: the store's, the engine's, or a build step's own."""
    return any(words in line.lower() for line in lines for words in FULL_DISK)


def full_disk(message: str, lines: Sequence[str], log: Path) -> BuildError:
    """The error of a step that a full disk ended: no source and no patch is wrong."""
    return BuildError(
        f"a disk is full: {message}",
        where="\n".join([*lines, f"log: {log}"]),
        hint="free some on the disk of the store and on that of the engine: ./build.py cache gc --keep 20GB\n"
        "or set GB10_CACHE_DIR (and Docker's data-root) to a larger disk; finished steps are kept",
    )


def _short(step: str) -> str:
    """A step's name without its mounts and beyond its first line. Pure."""
    words = [word for word in step.partition("\n")[0].split() if not word.startswith("--mount=")]
    return " ".join(words)[:100]
