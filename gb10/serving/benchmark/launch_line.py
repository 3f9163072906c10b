"""What one launch came to, as a line of a journal: STABLE, FAIL or GARBAGE, with the reason and the benchmark. Pure."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from gb10.serving.benchmark.saved_serve import SavedServe, Text
from gb10.serving.guard.finding import Verdict
from gb10.serving.load_generator.quality import Judge, Quality

MOST: Final = 100_000
"""Launches of a journal, and questions of a judge: a bundle is another's."""


class Result(StrEnum):
    """Of one launch."""

    STABLE = "STABLE"
    """It was healthy to the end, and its answers were sound."""
    FAIL = "FAIL"
    """It did not start, ended, or did not answer."""
    GARBAGE = "GARBAGE"
    """It answered, and the answers collapsed or were wrong."""


class SavedQuality(BaseModel):
    """Points that a judge gave; canaries are judges that are always there."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    judge: Judge
    what: Text
    points: Annotated[int, Field(ge=0, le=MOST)]
    of: Annotated[int, Field(ge=1, le=MOST)]

    @model_validator(mode="after")
    def _no_more_points_than_there_are(self) -> Self:
        if self.points > self.of:
            raise ValueError("more points than there are")
        return self


class LaunchLine(BaseModel):
    """One launch of a side, or of a row. ``cause`` is the line of the server's log that tells why it failed."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    kind: Literal["launch"]
    name: Text
    block: Annotated[int, Field(ge=0, le=MOST)]
    number: Annotated[int, Field(ge=0, le=MOST)]
    result: Result
    why: Text
    cause: Text
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    facts: dict[str, Any]
    serve: SavedServe | None = None
    quality: SavedQuality | None = None


class BegunLine(BaseModel):
    """A server that was started: a later run ends it when the one that started it was killed."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    kind: Literal["begun"]
    pid: Annotated[int, Field(gt=1)]
    started: int


def read_launch(line: str) -> LaunchLine | None:
    """The launch of a line; None for another line, such as the half one of a run that was killed."""
    try:
        return LaunchLine.model_validate_json(line)
    except ValidationError:
        return None


def leftover_server(lines: list[str]) -> BegunLine | None:
    """The server of the last line, when no launch follows that it belongs to."""
    for line in reversed(lines):
        if read_launch(line):
            return None
        try:
            return BegunLine.model_validate_json(line)
        except ValidationError:
            continue
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one launch came to, before it is a line. ``serve`` is the document of its benchmark."""

    result: Result
    why: str = ""
    cause: str = ""
    seconds: float = 0.0
    facts: Mapping[str, object]
    serve: Mapping[str, object] | None = None
    quality: Quality | None = None
    answers: tuple[str, ...] = ()
    """How each canary's answer began."""
    error: str = ""
    """The whole error of a launch that failed."""

    def line(self, name: str, block: int, number: int) -> str:
        """The line of a journal."""
        found = {
            "kind": "launch",
            "name": name,
            "block": block,
            "number": number,
            "result": str(self.result),
            "why": self.why[:20_000],
            "cause": self.cause[:20_000],
            "seconds": round(self.seconds, 1),
            "facts": dict(self.facts),
            "serve": self.serve,
            "quality": asdict(self.quality) if self.quality else None,
        }
        return json.dumps(found)


def result_of(verdict: Verdict, ended: str) -> Result:
    """The result of a launch that was measured; ``ended``: how its server ended meanwhile. Pure."""
    if verdict is Verdict.GARBAGE:
        return Result.GARBAGE
    return Result.FAIL if verdict.bad or ended else Result.STABLE
