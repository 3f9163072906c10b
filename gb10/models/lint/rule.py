"""A rule of ``recipe lint``: what the field has learnt, for which releases, how it is seen, what to write instead."""

from functools import cache
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from pydantic import Field, StringConstraints, model_validator

from gb10.core.data_root import ROOT
from gb10.core.document import parse_document
from gb10.core.fields import Model, accepted
from gb10.core.linear import LinearError, linear
from gb10.models.issue import Level

RULES: Final = "recipes/lint/rules.yaml"
Text = Annotated[str, StringConstraints(min_length=3, max_length=400)]
Releases = Annotated[str, accepted(SpecifierSet, InvalidSpecifier, "{text} names no releases: {reason}")]
Pattern = Annotated[str, StringConstraints(min_length=1, max_length=400)]
Expression = Annotated[
    str,
    StringConstraints(min_length=1, max_length=400),
    accepted(linear, LinearError, "{text} is no regular expression of bounded time: {reason}"),
]


class Condition(Model):
    """One thing that is so in a recipe. Exactly one subject; without a test it is there."""

    option: str | None = None
    """An option of the serve command, by its long name."""
    env: Pattern | None = None
    """An environment variable, by a pattern (``VLLM_*``)."""
    model: Expression | None = None
    """The model's name holds this regular expression."""
    container: Expression | None = None
    text: Expression | None = None
    """The command as it is written holds this regular expression."""
    key: str | None = None
    """A key of the recipe's top level."""
    nodes: bool | None = None
    """The number of nodes that the recipe asks for."""
    absent: bool = False
    values: tuple[str, ...] = Field(default=(), alias="is")
    """Its value is one of these, letter case and underscores aside."""
    above: float | None = None
    below: float | None = None
    holds: Expression | None = None
    """Its value holds this regular expression."""

    @model_validator(mode="after")
    def _one_subject(self) -> Self:
        subjects = (self.option, self.env, self.model, self.container, self.text, self.key, self.nodes)
        if sum(subject is not None for subject in subjects) != 1:
            raise ValueError("a condition has exactly one of option, env, model, container, text, key, nodes")
        return self


class Rule(Model):
    """One rule. ``code`` never changes: it is the code of its findings."""

    code: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{2,40}$")]
    level: Level
    engines: tuple[Literal["vllm", "sglang", "trtllm"], ...] = ()
    """Only for recipes of these engines; empty: for all."""
    releases: Releases = ""
    """Only for these releases of the engine; empty: for all."""
    mended_by: Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]+/\d{4}$")] | None = None
    """A patch of ours: an image that has it does not have the problem."""
    when: tuple[Condition, ...] = ()
    """All must hold. Empty: a check of gb10.models.lint.computed has the rule's code."""
    text: Text
    """What is wrong; ``{value}`` is the value of the first condition."""
    fix: Text
    evidence: Text
    """Where it is known from: an issue, a measurement, a file of the engine."""


class RuleFile(Model):
    """``recipes/lint/rules.yaml``."""

    rules: tuple[Rule, ...]


@cache
def load_rules(path: Path = ROOT / RULES) -> tuple[Rule, ...]:
    """The rules of the checkout; raises UsageError for a file that is not valid."""
    return parse_document(path.read_text(encoding="utf-8"), RuleFile, where=RULES, what="list of lint rules").rules
