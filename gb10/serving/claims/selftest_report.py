"""A report of ``selftest``, as its schema has it (docs/schemas/selftest-v1.schema.json): hostile until it is read."""

import hashlib
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Final, Literal, NoReturn, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from gb10.core.document import check_value
from gb10.core.files import read_plain_file
from gb10.errors import UsageError
from gb10.serving.claims.claim_schema import Id, Step

LARGEST: Final = 1 << 20
AHEAD: Final = timedelta(days=1)
"""How far the clock of a machine may be ahead of ours."""
HINT: Final = "give the report.json in the folder that selftest made"
WHAT: Final = "report of selftest"


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def _text(most: int, pattern: str | None = None, least: int = 0) -> StringConstraints:
    return StringConstraints(min_length=least, max_length=most, pattern=pattern)


Figure = Annotated[int | float, Field(allow_inf_nan=False, ge=-1e15, le=1e15)]
Seconds = Annotated[int | float, Field(allow_inf_nan=False, ge=0)]
Budget = Annotated[int | float, Field(allow_inf_nan=False, gt=0)]
Version = Annotated[str, _text(20, r"^\d+\.\d+$")]


class Measured(_Part):
    """One figure of a step."""

    value: bool | Figure | Annotated[str, _text(200)]
    unit: Annotated[str, _text(20)] | None = None


class MachineOfReport(_Part):
    """The machine, without a name or a number that is its own."""

    gpu: Annotated[str, _text(80)] | None
    capability: Version | None
    sm_count: Annotated[int, Field(ge=1)] | None
    memory_gib: Budget | None
    driver: Annotated[str, _text(40)] | None
    cuda: Version | None
    kernel: Annotated[str, _text(80)] | None
    arch: Annotated[str, _text(20)]


class ImageOfReport(_Part):
    """The image whose servers ran."""

    reference: Annotated[str, _text(200)]
    digest: Annotated[str, _text(71, r"^sha256:[0-9a-f]{64}$")] | None
    tag: Annotated[str, _text(128)] | None
    engine: Literal["vllm", "sglang"] | None
    release: Annotated[str, _text(60)] | None
    plan: Annotated[str, _text(64)] | None


class StepOfReport(_Part):
    """What one step found."""

    id: Step
    title: Annotated[str, _text(120)]
    asked: bool
    result: Literal["holds", "does not hold", "not checked"]
    why: Annotated[str, _text(600)]
    seconds: Seconds
    budget_s: Budget
    claims: Annotated[dict[Id, Measured], Field(max_length=200)]
    evidence: Annotated[list[Annotated[str, _text(82, r"^[a-z0-9][a-z0-9._-]{0,80}$")]], Field(max_length=40)]

    @model_validator(mode="after")
    def _unasked(self) -> Self:
        if not self.asked and (self.result != "not checked" or self.claims):
            raise ValueError(f"nobody asked for the step {self.id}, and it has a result")
        return self


class SelftestReport(_Part):
    """The whole document."""

    schema_version: Annotated[int, Field(ge=1, le=1)] = Field(alias="schema")  # Literal[1] takes true
    gb10: Annotated[str, _text(60, least=1)]
    when: Annotated[str, _text(20, r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")]
    machine: MachineOfReport | None
    image: ImageOfReport | None
    steps: Annotated[list[StepOfReport], Field(max_length=100)]
    wall_s: Seconds


def read_report(path: Path, now: datetime) -> tuple[SelftestReport, str]:
    """A report and its sha256. Raises UsageError for what is none, says anything twice, or is from the future."""
    content = read_plain_file(path, LARGEST, HINT)
    try:
        value = json.loads(content, object_pairs_hook=_once, parse_constant=_refused)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise UsageError(f"{path} is not a {WHAT}: it is not JSON", where=reason[:200], hint=HINT) from error
    check_value(value, SelftestReport, where=str(path), what=WHAT)
    report = SelftestReport.model_validate(value)
    steps = [step.id for step in report.steps]
    twice = sorted({one for one in steps if steps.count(one) > 1})
    if twice:
        raise UsageError(f"{path} is not a valid {WHAT}: a step is listed twice", where=", ".join(twice))
    try:
        begun = datetime.strptime(report.when, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError as error:
        raise UsageError(f"{path} is not a valid {WHAT}: no such time", where=report.when) from error
    if begun > now + AHEAD:
        raise UsageError(f"{path} is of {report.when}, which is to come", hint="correct the clock of that machine")
    return report, hashlib.sha256(content).hexdigest()


def _once(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is there twice")
    return found


def _refused(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number of JSON")
