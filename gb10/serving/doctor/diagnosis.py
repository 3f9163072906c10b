"""What ``doctor`` has seen, and the diagnosis that it makes of it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from gb10.models.issue import LEVELS, Level
from gb10.serving.doctor.doctor_rule import DoctorRule
from gb10.serving.doctor.log_time import Moment

Place = Literal["log", "machine", "container", "endpoint"]
HALF: Final = 700
UNKNOWN: Final = "unknown"
"""The code of an error in a log that no rule knows."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """What a family of errors says of one error, from its structure and the facts at hand."""

    code: str
    level: Level = "error"
    meaning: str
    action: str
    evidence: str
    echo: bool = False
    """Whether it only tells that another process went away: where an earlier error is known, it is its echo."""
    each: str = ""
    """What tells one cause of this code from another (a number of the driver): each is a finding of its own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One sign, where it was first seen. ``where`` is a node, a log, a container or an endpoint."""

    rule: DoctorRule | Verdict | None
    """None: an error of a log that no rule knows."""
    place: Place
    where: str
    value: str = ""
    line: int | None = None
    moment: Moment | None = None
    count: int = 1
    others: Mapping[str, int] = field(default_factory=dict)
    """Other logs with the same, and how often."""
    note: str = ""
    """One more sentence about this very finding."""
    chain: tuple[str, ...] = ()
    """Exceptions that it was raised from, or that came of it in its own process, one a line, in their order."""
    echoes: int = 0
    """Later errors, of all logs, that only follow from it."""
    stage: str = ""
    """How far the start was; empty where that is not known."""
    explained: tuple[str, ...] = ()
    """What the engine's own statement says of it, a sentence each."""
    raised_at: str = ""
    """The engine's file and line that raised it."""

    @property
    def code(self) -> str:
        """The rule's code."""
        return self.rule.code if self.rule else UNKNOWN

    @property
    def level(self) -> Level:
        """The rule's level; what nobody knows is an error."""
        return self.rule.level if self.rule else "error"

    def words(self, text: str) -> str:
        """The meaning or the action of the rule, about what was seen."""
        return text if isinstance(self.rule, Verdict) else text.replace("{value}", self.value[:200])

    @property
    def shown(self) -> str:
        """The value for people: long ones lose their middle, not the names and numbers at their end."""
        if len(self.value) <= 2 * HALF:
            return self.value
        return f"{self.value[:HALF]} […] {self.value[-HALF:]}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Diagnosis:
    """All that was seen: logs in the order of time, then machines, containers, endpoints."""

    seen: tuple[Finding, ...]
    dropped: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By what it is about: codes of rules that cannot be, and why."""
    remarks: tuple[str, ...] = ()
    """What could not be read, in a sentence each."""

    @property
    def first(self) -> Finding | None:
        """The first error of all logs."""
        return next((one for one in self.seen if one.place == "log" and one.level == "error"), None)

    @property
    def worst(self) -> Level | None:
        """The worst level of all."""
        return min((one.level for one in self.seen), key=LEVELS.index, default=None)
