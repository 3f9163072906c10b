"""Rules for what an image leaves out: recipes/slim.yaml. Pure."""

from functools import cache
from typing import Annotated, Final, Literal

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import parse_wheel_filename
from pydantic import AfterValidator, Field, StringConstraints

from gb10.recipe.document import parse_document
from gb10.recipe.fields import Model, accepted, requirement_name
from gb10.recipe.locked import LockedWheel

RULES: Final = "recipes/slim.yaml"
Extent = Literal["all", "publishable", "none"]
"""Which rules a build applies: all, those that the licences allow in a published image, or none."""


def _bounded(pattern: str) -> str:
    """Accept a relative path of names and ``*``, with ``**`` only as its last part and below a named folder."""
    *folders, last = pattern.split("/")
    if not folders or not all(folders) or not last or ".." in (*folders, last) or pattern.count("*") > 4:
        raise ValueError(f"{pattern!r} is not a relative path below a folder, with at most four *")
    if any("**" in part for part in (*folders, last.replace("**", "", 1) if last == "**" else last)):
        raise ValueError(f"{pattern!r}: ** may only be the last part of a path")
    if set(folders[0]) <= set("*?[]"):
        raise ValueError(f"{pattern!r}: the first folder must have a name")
    return pattern


Pattern = Annotated[str, StringConstraints(max_length=256), AfterValidator(_bounded)]
Release = Annotated[
    str, accepted(Requirement, InvalidRequirement, "{text} is not a distribution with releases: {reason}")
]
Text = Annotated[str, StringConstraints(min_length=10, max_length=1000)]


class Rule(Model):
    """What is left out of which releases, why, and how that is shown."""

    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{1,40}$")]
    action: Literal["drop", "strip"]
    """``drop`` whole files, or ``strip`` symbol and debug tables of libraries."""
    files: Annotated[dict[Release, tuple[Pattern, ...]], Field(min_length=1)]
    """Patterns of files by distribution and its releases. Each must match a file."""
    why: Text
    shown: Text
    mb: float
    """MB (1e6 bytes) saved in the installed arm64 image, measured."""
    licence: Text
    """What the licence of these files says about it."""
    publish: bool = True
    """Whether an image with this change may be published."""


class RuleFile(Model):
    """``recipes/slim.yaml``."""

    rules: tuple[Rule, ...]


def read_rules(text: str) -> tuple[Rule, ...]:
    """The rules; raises UsageError for a file that is not valid."""
    return parse_document(text, RuleFile, where=RULES, what="list of slimming rules").rules


def fits(release: str, wheel: LockedWheel) -> bool:
    """Whether a wheel is of a rule's distribution and releases."""
    project, releases = _wanted(release)
    return project == wheel.name and releases.contains(parse_wheel_filename(wheel.filename)[1], prereleases=True)


@cache
def _wanted(release: str) -> tuple[str, SpecifierSet]:
    """The distribution and its releases: each rule is asked of each wheel."""
    return requirement_name(release), Requirement(release).specifier
