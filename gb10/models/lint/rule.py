"""A rule of ``recipe lint``: what the field has learnt, for which releases, how it is seen, what to write instead."""

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version
from pydantic import Field, StringConstraints, model_validator

from gb10.core.document import parse_document
from gb10.core.fields import Model, accepted
from gb10.core.installation import ROOT
from gb10.core.linear_regex import LinearError, linear
from gb10.models.issue import Issue, Level
from gb10.models.lint.served import LintCase

RULES: Final = "recipes/lint/rules.yaml"
LONGEST: Final = 120
LONGEST_LIST: Final = 240
"""Characters of a value in a sentence; of one that lists several."""
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
    """All must hold. Empty: a check of gb10.models.lint.checks has the rule's code."""
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """A part of a recipe: its line, and its value as text; of an environment variable also its name.

    ``release`` is what the recipe was compared with, ``more`` the end of a sentence about this very part. ``level`` is
    in place of the rule's.
    """

    line: int
    value: str
    name: str = ""
    release: str = ""
    more: str = ""
    level: Level | None = None


def issue(rule: Rule, case: LintCase, place: Finding) -> Issue:
    """The finding of a rule at a place."""
    text, fix = (_filled(part, place) for part in (rule.text, rule.fix))
    return Issue(
        code=rule.code,
        level=place.level or rule.level,
        file=case.recipe.file,
        line=place.line,
        text=text,
        fix=f"{fix} ({rule.evidence})",
    )


def _filled(text: str, place: Finding) -> str:
    value = _cut(place.value)
    parts = {"{release}": place.release, "{more}": place.more, "{name}": place.name[:80], "{value}": value}
    for name, part in parts.items():
        text = text.replace(name, part) if name in text else text
    return text


def _cut(text: str) -> str:
    """A value of bounded length: a list ends between two of its parts and says how many follow."""
    head, *parts = text[:LONGEST_LIST].split(", ")
    is_list = len(parts) > 1 and not text.startswith(("{", "["))
    if len(text) <= (LONGEST_LIST if is_list else LONGEST):
        return text
    if not is_list:
        return f"{text[:LONGEST]}…"
    kept = ", ".join((head, *parts[:-1]))
    return f"{kept} and {text.count(', ') - len(parts) + 1} more"


def applies(rule: Rule, case: LintCase) -> bool:
    """Whether a rule is about this engine and release; of an unknown release only rules for all releases are."""
    if (rule.engines and case.engine not in rule.engines) or rule.mended_by in case.patches:
        return False
    if not rule.releases or case.unknown:
        return not rule.releases
    try:
        return _releases(rule.releases).contains(Version(case.release), prereleases=True)
    except InvalidVersion:
        return False


@cache
def _releases(text: str) -> SpecifierSet:
    return SpecifierSet(text)


def matching_parts(condition: Condition, case: LintCase) -> list[Finding]:
    """Where a condition holds."""
    places = list(_subject(condition, case))
    if condition.absent:
        return [] if places else [Finding(line=case.recipe.line("command"), value="")]
    return [place for place in places if _passes(condition, place.value)]


def _subject(condition: Condition, case: LintCase) -> Iterator[Finding]:
    """The parts of a recipe that a condition is about."""
    recipe = case.recipe
    if condition.option is not None:
        for value in case.options.get(condition.option, ()):
            yield Finding(line=case.line_of(condition.option), value=value)
    elif condition.env is not None:
        for name, given in recipe.env.items():
            if fnmatchcase(name, condition.env):
                yield Finding(line=recipe.line("env", name), value=str(given), name=name)
    elif condition.nodes is not None:
        yield Finding(line=recipe.line("min_nodes") or recipe.line("command"), value=str(case.nodes))
    elif condition.key is not None:
        if recipe.values.get(condition.key) is not None:
            yield Finding(line=recipe.line(condition.key), value=str(recipe.values[condition.key]))
    else:
        yield from _matching(condition, case)


def _matching(condition: Condition, case: LintCase) -> Iterator[Finding]:
    """A regular expression over the model's name, the container's, or the command."""
    recipe = case.recipe
    for key, pattern in (("model", condition.model), ("container", condition.container), ("command", condition.text)):
        text = recipe.text(key) or ""
        found = linear(pattern, ignore_case=True).search(text[:100_000]) if pattern else None
        if found:
            line = recipe.text_line((key,), found.start()) if key == "command" else recipe.line(key)
            yield Finding(line=line, value=found[0] or "")


def _passes(condition: Condition, value: str) -> bool:
    wanted = {_folded(one) for one in condition.values}
    if wanted and _folded(value) not in wanted:
        return False
    if condition.holds and not linear(condition.holds, ignore_case=True).search(value[:10_000]):
        return False
    if condition.above is None and condition.below is None:
        return True
    try:
        number = float(value)
    except ValueError:
        return False
    return (condition.above is None or number > condition.above) and (
        condition.below is None or number < condition.below
    )


def _folded(value: str) -> str:
    return value.strip().lower().replace("_", "-")
