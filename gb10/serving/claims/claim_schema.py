"""A claim: a sentence, how it is checked without a GB10 and on one, what must come out, and what machines reported."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from gb10.core.fields import Model, Sentence, Sha256, unique

Id = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+([.-][a-z0-9]+)*$", max_length=80)]
Step = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,40}$")]
Number = Annotated[int | float, Field(allow_inf_nan=False)]
Word = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9 .,:/()_+-]*$", max_length=200)]
"""What a report may put into the page of claims: no letter of Markdown or HTML."""
Value = bool | Number | Word
Page = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][\w./-]*\.md$", max_length=200)]
TestId = Annotated[str, StringConstraints(pattern=r"^tests/[\w/-]+\.py::test_\w+$", max_length=300)]
Short = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Outcome = Literal["held", "fell", "recorded"]


class Must(Model):
    """What must come out: one value, a range with the source of its bounds, or anything, which is recorded."""

    exactly: Value | None = None
    least: Number | None = None
    most: Number | None = None
    recorded: bool = False
    unit: Word | None = None
    source: Sentence | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        ranged = self.least is not None or self.most is not None
        if [self.exactly is not None, ranged, self.recorded].count(True) != 1:
            raise ValueError("write one of 'exactly', a range ('least', 'most'), 'recorded: true'")
        if ranged != (self.source is not None):
            raise ValueError("a range, and nothing else, needs a 'source' for its bounds")
        if self.least is not None and self.most is not None and self.least > self.most:
            raise ValueError(f"'least' {self.least} is above 'most' {self.most}")
        return self


class Published(Model):
    """A figure of others: printed beside what is measured, and no bound. ``kept`` is our file that has it."""

    value: Number
    unit: Short
    kept: Short
    what: Sentence


class Claim(Model):
    """One thing that gb10 asserts.

    ``tests`` check what can be checked without a GB10; a claim without any says why in ``untested``. A step of selftest
    checks it on one, and its report has the figure by the claim's id. A claim without a step says in ``elsewhere`` what
    shows it.
    """

    id: Id
    says: Sentence
    verbs: tuple[Short, ...] = ()
    pages: tuple[Page, ...]
    tests: Annotated[tuple[TestId, ...], unique("the test", str)] = ()
    untested: Sentence | None = None
    step: Step | None = None
    elsewhere: Sentence | None = None
    must: Must
    published: tuple[Published, ...] = ()

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if bool(self.tests) == (self.untested is not None):
            raise ValueError(f"{self.id} needs 'tests', or 'untested' with the reason, and not both")
        if (self.step is None) == (self.elsewhere is None):
            raise ValueError(f"{self.id} needs a 'step' of selftest, or 'elsewhere', and not both")
        return self


class ClaimFile(Model):
    """The claims of one subject."""

    title: Short
    claims: Annotated[tuple[Claim, ...], unique("the claim", lambda claim: claim.id)]


class Result(Model):
    """What a report says of one claim."""

    came: Outcome
    value: Value
    unit: Word | None = None


class Report(Model):
    """What is kept of one report of ``selftest``: a file of recipes/claims/reports."""

    report: Sha256
    date: date
    machine: Word
    gb10: Word
    image: Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")] | None = None
    results: dict[Id, Result]


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """A file of claims by its name, which is its place in docs/claims.md."""

    name: str
    title: str
    claims: tuple[Claim, ...]


def outcome(claim: Claim, value: Value) -> Outcome:
    """What a value makes of a claim. Raises ValueError for one of another kind than the claim's."""
    must = claim.must
    if must.recorded:
        return "recorded"
    wanted = 0 if must.exactly is None else must.exactly
    if _kind(value) != _kind(wanted):
        raise ValueError(f"it must be {_kind(wanted)}, found {value!r}")
    if must.exactly is not None or isinstance(value, bool | str):
        return "held" if value == must.exactly else "fell"
    low = must.least is not None and value < must.least
    high = must.most is not None and value > must.most
    return "fell" if low or high else "held"


def _kind(value: Value) -> str:
    return "true or false" if isinstance(value, bool) else "text" if isinstance(value, str) else "a number"


def results_of(claim: Claim, reports: Sequence[Report]) -> tuple[tuple[Report, Result], ...]:
    """The reports that looked at a claim, the oldest first."""
    found = [(report, report.results[claim.id]) for report in reports if claim.id in report.results]
    return tuple(sorted(found, key=lambda pair: (pair[0].date, pair[0].report)))
