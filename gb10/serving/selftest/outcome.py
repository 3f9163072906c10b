"""What a step found, and the report of all steps: docs/schemas/selftest-v1.schema.json. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Final

SCHEMA: Final = 1
LONGEST: Final = 600
"""Characters of a reason."""
Value = float | int | bool | str


class Result(StrEnum):
    """How a step ended; "not checked" is neither good nor bad."""

    HOLDS = "holds"
    BROKEN = "does not hold"
    UNCHECKED = "not checked"


class NotCheckedError(Exception):
    """A step, or the rest of it, cannot be done here: why, in one sentence."""


@dataclass(frozen=True, slots=True)
class Figure:
    """What was measured for a claim."""

    value: Value
    unit: str = ""

    @property
    def document(self) -> dict[str, Value]:
        """As the report has it."""
        return {"value": self.value, **({"unit": self.unit} if self.unit else {})}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a step found. ``claims`` by the id of the claim."""

    result: Result
    why: str = ""
    claims: Mapping[str, Figure] = field(default_factory=dict)


def holds(why: str = "", claims: Mapping[str, Figure] | None = None) -> Outcome:
    """It is as we say."""
    return Outcome(result=Result.HOLDS, why=why, claims=claims or {})


def broken(why: str, claims: Mapping[str, Figure] | None = None) -> Outcome:
    """It is not as we say."""
    return Outcome(result=Result.BROKEN, why=why, claims=claims or {})


def unchecked(why: str, claims: Mapping[str, Figure] | None = None) -> Outcome:
    """Nobody knows; what was measured all the same is kept."""
    return Outcome(result=Result.UNCHECKED, why=why, claims=claims or {})


def outcome_from(wrong: Iterable[str], right: str, claims: Mapping[str, Figure] | None = None) -> Outcome:
    """Broken when there is a sentence in ``wrong``, with all of them; else ``right``."""
    sentences = list(wrong)
    return broken("; ".join(sentences), claims) if sentences else holds(right, claims)


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFacts:
    """The machine; None is not known."""

    gpu: str | None = None
    capability: str | None = None
    sm_count: int | None = None
    memory_gib: float | None = None
    driver: str | None = None
    cuda: str | None = None
    kernel: str | None = None
    arch: str

    @property
    def is_gb10(self) -> bool:
        """Whether the claims are about this GPU."""
        return self.capability == "12.1"

    @property
    def words(self) -> str:
        """In a sentence."""
        if self.gpu is None:
            return f"no GPU that nvidia-smi names, {self.arch}"
        return f"{self.gpu} ({self.capability or 'capability unknown'}), driver {self.driver or 'unknown'}, {self.arch}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFacts:
    """The image under test, without its registry's host."""

    reference: str
    digest: str | None = None
    tag: str | None = None
    engine: str | None = None
    release: str | None = None
    plan: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepReport:
    """One step of a report."""

    id: str
    title: str
    outcome: Outcome
    seconds: float
    budget_s: float
    evidence: Sequence[str] = ()
    asked: bool = True
    """False for a step that nobody asked for: its reason says what asks for it."""

    @property
    def document(self) -> dict[str, Any]:
        """As the report has it."""
        return {
            "id": self.id,
            "title": self.title,
            "asked": self.asked,
            "result": str(self.outcome.result),
            "why": self.outcome.why[: 2 * LONGEST].rsplit(maxsplit=1)[0]
            if len(self.outcome.why) > LONGEST
            else self.outcome.why,
            "seconds": round(self.seconds, 2),
            "budget_s": self.budget_s,
            "claims": {name: one.document for name, one in sorted(self.outcome.claims.items())},
            "evidence": list(self.evidence),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All of it."""

    gb10: str
    when: str
    machine: MachineFacts
    image: ImageFacts | None
    steps: Sequence[StepReport]
    wall_s: float

    @property
    def document(self) -> dict[str, Any]:
        """report.json."""
        return {
            "schema": SCHEMA,
            "gb10": self.gb10,
            "when": self.when,
            "machine": asdict(self.machine),
            "image": asdict(self.image) if self.image else None,
            "steps": [one.document for one in self.steps],
            "wall_s": round(self.wall_s, 1),
        }

    def of(self, result: Result) -> list[StepReport]:
        """The steps that were asked for, and ended so."""
        return [one for one in self.steps if one.asked and one.outcome.result is result]

    @property
    def unasked(self) -> list[StepReport]:
        """The steps that nobody asked for."""
        return [one for one in self.steps if not one.asked]

    @property
    def counts(self) -> str:
        """``12 hold, 1 does not hold, 3 not checked, 2 not asked for``."""
        good, bad, unknown = (len(self.of(one)) for one in Result)
        verb = "does" if bad == 1 else "do"
        others = f", {len(self.unasked)} not asked for" if self.unasked else ""
        return f"{good} {'holds' if good == 1 else 'hold'}, {bad} {verb} not hold, {unknown} not checked{others}"


def step_of(document: Mapping[str, Any]) -> StepReport:
    """A step of a report that was written before."""
    claims = {name: Figure(one["value"], one.get("unit", "")) for name, one in document["claims"].items()}
    outcome = Outcome(result=Result(document["result"]), why=document["why"], claims=claims)
    return StepReport(
        id=document["id"],
        title=document["title"],
        outcome=outcome,
        seconds=document["seconds"],
        budget_s=document["budget_s"],
        asked=document["asked"],
        evidence=tuple(document["evidence"]),
    )
