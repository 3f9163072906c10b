"""How far a server came with its start, for each rank, by the lines that begin a stage. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from pydantic import Field

from gb10.core.fields import Model
from gb10.serving.doctor.log_speech import speech
from gb10.serving.doctor.log_time import Moment

STAGES: Final = (
    "import", "platform", "config", "connect", "download", "load", "context", "compile", "profile", "capture",
    "warm-up", "ready", "serving",
)  # fmt: skip
"""In the order of a start. Engines differ in the order of compile and profile; context is llama.cpp's alone."""
Stage = Literal[
    "import", "platform", "config", "connect", "download", "load", "context", "compile", "profile", "capture",
    "warm-up", "ready", "serving",
]  # fmt: skip
EngineName = Literal["vllm", "sglang", "trtllm", "llamacpp"]
DONE: Final = STAGES.index("ready")
RANKS: Final = 64
"""Ranks of a log that are told apart."""
PROGRESS: Final = re.compile(r"(?<![\d/])(\d{1,6})/(\d{1,6}) \[\d{1,3}:\d\d")
"""What a progress bar shows."""
SHOWN: Final = 6000


class StageText(Model):
    """What takes long in a stage, what to look at when it does not end, and what makes it shorter."""

    usual: str
    look: str
    shorten: str = ""
    by: dict[EngineName, str] = Field(default_factory=dict)
    """What else does so for one engine."""

    def shortened_by(self, engine: str | None) -> str:
        """What makes the stage shorter for an engine; empty where nothing is known."""
        own = next((text for name, text in self.by.items() if name == engine), "")
        return "; ".join(filter(None, (self.shorten, own)))


class StageMark(Model):
    """Texts of lines that begin a stage. A mark that ``starts`` begins a new start of the server."""

    stage: Stage
    engine: EngineName | None = None
    starts: bool = False
    has: tuple[str, ...] = Field(min_length=1)


class StageFile(Model):
    """``recipes/doctor/stages.toml``."""

    stage: dict[Stage, StageText]
    mark: tuple[StageMark, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Reached:
    """The stage that a rank came to last."""

    stage: Stage
    line: int
    moment: Moment | None = None
    """None where no line before has a time."""
    text: str = ""

    @property
    def index(self) -> int:
        """Its place in the order of a start."""
        return STAGES.index(self.stage)


@dataclass(frozen=True, kw_only=True, slots=True)
class Start:
    """The last start of a server that a log shows. Empty for a log that shows none."""

    engine: str | None = None
    ranks: Mapping[str, Reached] = field(default_factory=dict)
    """By rank; the name is empty where the log names none."""
    arguments: str = ""
    """What it was started with, as the engine prints it."""
    begun: bool = False
    """Whether the log has the line that begins it, which only a server prints."""
    progress: tuple[int, int] | None = None
    """Of the progress bar that the log ends with: done, of all."""

    @property
    def last(self) -> Reached | None:
        """The stage that was begun last."""
        return max(self.ranks.values(), key=lambda one: one.line, default=None)

    @property
    def is_ready(self) -> bool:
        """Whether a line says that the server is ready, or serves."""
        return any(one.index >= DONE for one in self.ranks.values())

    def option(self, *names: str) -> str | None:
        """The value of an option of the engine by its names in Python; None where it is not printed."""
        for name in names:
            found = re.search(rf"['\"( ,]{name}['\"]?(?:=|: ?)('[^']*'|\"[^\"]*\"|[^,)}}]{{1,200}})", self.arguments)
            if found:
                return found[1].strip("'\"")
        return None

    @property
    def nodes(self) -> int:
        """On how many machines it runs, as its options say; 1 where they do not."""
        text = self.option("nnodes") or "1"
        return int(text) if text.isdigit() else 1


class StageReader:
    """Keeps what the lines with a mark say; feed it these lines, in order."""

    def __init__(self, marks: Sequence[StageMark]) -> None:
        """``marks`` are all that may come."""
        self._marks = {text.encode(): mark for mark in marks for text in mark.has}
        self._start = Start()
        self._ranks: dict[str, Reached] = {}

    @property
    def texts(self) -> tuple[bytes, ...]:
        """What to seek in a log."""
        return tuple(self._marks)

    def look(self, text: str, number: int, moment: Moment | None, marks: Iterable[bytes]) -> None:
        """A line that has some of the marks' texts."""
        for mark in (self._marks[one] for one in marks if one in self._marks):
            if mark.engine and self._start.engine not in (None, mark.engine) and not mark.starts:
                continue
            said = speech(text)
            if mark.starts and not self._is_same_start(mark):
                self._ranks, self._start = {}, Start(engine=mark.engine)
            if mark.starts:
                self._start = replace(self._start, begun=True)
            if self._start.engine is None and mark.engine:
                self._start = replace(self._start, engine=mark.engine)
            if "args" in said.body[:40]:
                self._start = replace(self._start, arguments=text[:SHOWN])
            who = said.who or self._speaker()
            if who in self._ranks or len(self._ranks) < RANKS:
                before = self._ranks.get(who)
                stage: Stage = mark.stage
                if before and before.index >= DONE and stage == "download":
                    continue  # a server that is ready fetches adapters, too
                if before and before.stage == stage:
                    self._ranks[who] = replace(before, text=said.body.strip()[:200])
                else:
                    self._ranks[who] = Reached(stage=stage, line=number, moment=moment, text=said.body.strip()[:200])

    def _speaker(self) -> str:
        """Who writes a line without a name, as progress bars are: the rank that wrote last."""
        return max(self._ranks, key=lambda one: self._ranks[one].line, default="")

    def _is_same_start(self, mark: StageMark) -> bool:
        """Whether a start was begun and has not come further than its config, as for two lines of one banner."""
        return bool(self._ranks) and all(one.index <= STAGES.index(mark.stage) for one in self._ranks.values())

    def start(self, tail: str) -> Start:
        """What is known at the end of the log; ``tail`` is its last text."""
        lines = tail.rstrip().replace("\r", "\n").rsplit("\n", 1)
        shown = PROGRESS.findall(lines[-1]) if lines else []
        progress = (int(shown[-1][0]), int(shown[-1][1])) if shown else None
        return replace(self._start, ranks=dict(self._ranks), progress=progress)
