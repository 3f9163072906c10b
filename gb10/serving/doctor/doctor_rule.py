"""A rule of ``doctor``: what the field has seen, how it shows, for which releases, what it means, what to do."""

import re
from collections.abc import Mapping
from datetime import date
from functools import cache
from typing import Annotated, Literal, Self

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version
from pydantic import BeforeValidator, Field, StringConstraints, model_validator

from gb10.core.fields import Model, accepted
from gb10.core.linear_regex import LinearError, LinearPattern, linear
from gb10.models.issue import Level
from gb10.serving.doctor.image_record import ImageRecord

Text = Annotated[str, StringConstraints(min_length=3, max_length=500)]
Pattern = Annotated[
    str,
    StringConstraints(min_length=3, max_length=400),
    accepted(linear, LinearError, "{text} is no regular expression of bounded time: {reason}"),
]
Releases = Annotated[str, accepted(SpecifierSet, InvalidSpecifier, "{text} names no releases: {reason}")]
Code = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{2,40}$")]
Outcome = Literal["two-modes", "stalled", "garbage-together", "garbage-alone"]
"""What asking an endpoint may show."""
Need = Literal["log", "host", "container", "endpoint"]


class NumberTest(Model):
    """A number of a line, by the group of the match that holds it, or that number a number of another group."""

    group: int = Field(ge=1)
    per: int | None = Field(default=None, ge=1)
    above: float | None = None
    below: float | None = None


class LogSign(Model):
    """A line of a log. ``has`` is a text that each such line has, sought first: few different ones keep that fast."""

    has: Annotated[str, StringConstraints(min_length=4, max_length=60)]
    match: Pattern | None = None
    where: tuple[NumberTest, ...] = ()
    least: int = Field(default=1, ge=1)
    """So many such lines, at most a minute apart."""
    check: Literal["left-out"] | None = None
    """Only for a library that a slimming rule left out of the image."""

    @property
    def regex(self) -> LinearPattern:
        """The pattern; without one the text itself."""
        return linear(self.match or re.escape(self.has))


class ContainerSign(Model):
    """One thing that is so in a container. Exactly one subject; without a test it is there."""

    command: Pattern | None = None
    env: Annotated[str, StringConstraints(min_length=3, max_length=60)] | None = None
    """A variable, by a pattern (``VLLM_*``)."""
    value: Pattern | None = None
    absent: bool = False
    check: Code | None = None
    """A function of gb10.serving.doctor.container_checks."""

    @model_validator(mode="after")
    def _one_subject(self) -> Self:
        if sum(subject is not None for subject in (self.command, self.env, self.check)) != 1:
            raise ValueError("a sign of a container has exactly one of command, env, check")
        return self


class DoctorRule(Model):
    """One rule. ``code`` never changes. It is seen by a line of a log, on a machine, in a container or by asking."""

    code: Code
    level: Level
    engines: tuple[Literal["vllm", "sglang", "trtllm"], ...] = ()
    """Only for images of these engines; empty: for all."""
    releases: Annotated[dict[str, Releases], Field(max_length=6)] = Field(default_factory=dict)
    """By distribution, the releases that have the problem; one of them is enough. Empty: all."""
    mended_by: Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]+/\d{4}$")] | None = None
    """A patch of ours: an image that has it does not have the problem."""
    unless: Code | None = None
    """A rule that says more of the same line of a log: where that one speaks, this one is silent."""
    log: tuple[LogSign, ...] = ()
    host: tuple[Code, ...] = ()
    """Signs of gb10.serving.doctor.host_checks; one that is seen is enough."""
    container: tuple[ContainerSign, ...] | None = None
    """All must hold. Empty: an image of these releases is the sign."""
    endpoint: tuple[Outcome, ...] = ()
    meaning: Text
    """``{value}`` is what was seen."""
    action: Text
    evidence: Text
    """Where it is known from: an issue, a measurement, a file of the engine."""
    seen: Annotated[date, BeforeValidator(lambda given: date.fromisoformat(given) if isinstance(given, str) else given)]
    """When the evidence was read last: what is known of others' releases may be stale."""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if not self.needs:
            raise ValueError(f"rule {self.code} has no sign")
        if self.container == () and not self.releases:
            raise ValueError(f"rule {self.code}: an image without releases is no sign")
        return self

    @property
    def needs(self) -> tuple[Need, ...]:
        """What must be read to see it; one of them is enough."""
        signs: Mapping[Need, bool] = {
            "log": bool(self.log),
            "host": bool(self.host),
            "container": self.container is not None,
            "endpoint": bool(self.endpoint),
        }
        return tuple(need for need, has in signs.items() if has)

    def outside(self, image: ImageRecord | None) -> str | None:
        """Why the rule cannot be about an image; None when it may be, as about an image that nobody knows."""
        if image is None:
            return None
        if self.engines and image.engine not in self.engines:
            return f"it is about {' and '.join(self.engines)}"
        if self.mended_by in image.patches:
            return f"the image has the patch {self.mended_by}"
        if self.releases and image.versions and not any(_has(image, *one) for one in self.releases.items()):
            held = [f"{name} {image.versions[name]}" for name in self.releases if name in image.versions]
            return f"the image has {', '.join(held)}" if held else f"the image has no {' and no '.join(self.releases)}"
        return None


def _has(image: ImageRecord, name: str, releases: str) -> bool:
    version = image.versions.get(name)
    try:
        return version is not None and specifier(releases).contains(Version(version), prereleases=True)
    except InvalidVersion:
        return True  # nobody can tell


class RuleFile(Model):
    """A file of ``recipes/doctor``."""

    rules: tuple[DoctorRule, ...]


@cache
def specifier(text: str) -> SpecifierSet:
    """Releases, read once."""
    return SpecifierSet(text)
