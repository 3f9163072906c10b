"""Errors of tools around an engine: Docker, compilers, pip, apt, the kernel, ssh, NCCL, HTTP. Pure.

They are data (``recipes/doctor/tools``): an expression in the grammar of the tool's own messages, and what it means,
about the names and numbers that it found.
"""

import re
from collections.abc import Callable, Sequence
from string import Formatter
from typing import Annotated, Final, Self

from pydantic import Field, StringConstraints, model_validator

from gb10.core.fields import Model, accepted
from gb10.core.linear_regex import LinearError, LinearMatch, linear
from gb10.models.issue import Level
from gb10.serving.doctor.diagnosis import Verdict
from gb10.serving.doctor.doctor_rule import Code
from gb10.serving.doctor.error_case import Case

Text = Annotated[str, StringConstraints(min_length=3, max_length=600)]
Pattern = Annotated[
    str,
    StringConstraints(min_length=3, max_length=600),
    accepted(linear, LinearError, "{text} is no regular expression of bounded time: {reason}"),
]
GROUP: Final = re.compile(r"\(\?P<(\w+)>")
VALUE: Final = 400
"""Characters of a group that are quoted."""


class ToolError(Model):
    """One kind of error of one tool. Words in braces are groups of ``match``."""

    code: Code
    level: Level = "error"
    match: Pattern
    echo: bool = False
    """Whether it only tells that another process went away."""
    each: str = ""
    """The group whose values are causes of their own: each is a finding."""
    late: bool = False
    """Only for what no family knows better."""
    meaning: Text
    action: Text
    evidence: Text

    @model_validator(mode="after")
    def _names_its_groups(self) -> Self:
        known = set(GROUP.findall(self.match))
        named = {name for text in (self.meaning, self.action) for _, name, _, _ in Formatter().parse(text) if name}
        named |= {self.each} if self.each else set()
        if not named <= known:
            raise ValueError(f"{self.code} has no group {', '.join(sorted(named - known))}")
        return self

    def verdict(self, found: LinearMatch) -> Verdict:
        """What it says of a match."""
        groups = {name: " ".join((value or "").split())[:VALUE] for name, value in found.groupdict().items()}
        return Verdict(
            code=self.code,
            level=self.level,
            meaning=_filled(self.meaning, groups),
            action=_filled(self.action, groups),
            evidence=self.evidence,
            echo=self.echo,
            each=groups.get(self.each, ""),
        )


class ToolErrors(Model):
    """A file of ``recipes/doctor/tools``."""

    errors: tuple[ToolError, ...] = Field(min_length=1)


def _filled(text: str, groups: dict[str, str]) -> str:
    """The text about what was found, without what a group that is empty leaves behind."""
    said = text.format_map(groups)
    return re.sub(r" \(\)|(?<=\S) (?=[.,;:)] )| (?=[.,]$)", "", said).strip()


def tool_verdict(errors: Sequence[ToolError], text: str, *, late: bool) -> Verdict | None:
    """What the first kind says that a text is of."""
    for one in errors:
        if one.late is late and (found := linear(one.match).search(text)):
            return one.verdict(found)
    return None


def tool_family(errors: Callable[[], Sequence[ToolError]], *, late: bool) -> Callable[[Case], Verdict | None]:
    """A family of these errors; ``errors`` reads them when the first case comes."""

    def family(case: Case) -> Verdict | None:
        text = f"{case.raised.type}: {case.text}" if case.raised.type else case.text
        return tool_verdict(errors(), text, late=late)

    return family
