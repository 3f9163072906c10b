"""The record beside a patch: the defect in words, and the probe that tells whether a tree has it. Pure."""

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from gb10.patches.condition import check_glob, check_pattern, check_regex
from gb10.schema import Model, Sentence

Answer = Literal["needed", "present", "superseded", "absent"]


class Condition(Model):
    """One thing to look at: text or syntax in a file, or in one function of it, and how often it must be there."""

    file: Annotated[str, AfterValidator(check_glob)]
    scope: str | None = None
    regex: Annotated[str, AfterValidator(check_regex)] | None = None
    ast: Annotated[str, AfterValidator(check_pattern)] | None = None
    exists: bool | None = None
    count: int | str = ">=1"

    @model_validator(mode="after")
    def _one_question(self) -> Self:
        if sum(question is not None for question in (self.regex, self.ast, self.exists)) != 1:
            raise ValueError("needs exactly one of regex, ast and exists")
        if isinstance(self.count, str) and not re.fullmatch(r">=\d+", self.count):
            raise ValueError(f'count is a number or ">=n", found {self.count!r}')
        return self

    def holds(self, number: int) -> bool:
        """Whether so many matches are what was asked for."""
        return number == self.count if isinstance(self.count, int) else number >= int(self.count[2:])


class Case(Model):
    """One shape that a tree can have: all conditions hold, and then the answer."""

    answer: Answer
    why: Annotated[str, StringConstraints(min_length=3)]
    when: Annotated[tuple[Condition, ...], Field(min_length=1)]


class Record(Model):
    """A defect of an upstream release, and how it is told."""

    defect: Sentence
    fix: Sentence
    since: str | None = None
    until: str | None = None
    upstream: str | None = None
    proven: Sentence
    probe: Annotated[tuple[Case, ...], Field(min_length=1)]
