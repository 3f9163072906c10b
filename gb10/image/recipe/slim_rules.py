"""Rules for what an image leaves out: recipes/slim.yaml. Pure."""

from functools import cache
from operator import attrgetter
from typing import Annotated, Final, Literal

from packaging.utils import parse_wheel_filename
from pydantic import AfterValidator, Field, StringConstraints, model_validator

from gb10.core.fields import Model, accepted, parse_requirement, requirement_name, unique
from gb10.image.recipe.locked import LockedWheel

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
    str, accepted(parse_requirement, ValueError, "{text} is not a distribution with releases: {reason}")
]
Text = Annotated[str, StringConstraints(min_length=10, max_length=1000)]
Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{1,40}$")]


class Rule(Model):
    """What is left out of which releases, why, and how that is shown."""

    name: Name
    action: Literal["drop", "strip", "code"]
    """``drop`` whole files, ``strip`` symbol and debug tables, or leave out GPU ``code`` that the arch never loads."""
    files: Annotated[dict[Release, tuple[Pattern, ...]], Field(min_length=1)]
    """Patterns of files by distribution and its releases. Each must match a file."""
    why: Text
    shown: Text
    mb: dict[Release, float]
    """MB (1e6 bytes) saved in the installed arm64 image, measured, by the releases of ``files``."""
    licence: Text
    """What the licence of these files says about it."""
    publish: bool = True
    """Whether an image with this change may be published."""
    hollow: bool = False
    """Of ``code``: a fatbin without code for this GPU becomes empty. Else its smallest piece of code stays."""

    @property
    def saved(self) -> float:
        """MB saved by all its releases."""
        return round(sum(self.mb.values()), 1)

    @property
    def projects(self) -> set[str]:
        """The distributions whose files it changes or leaves out."""
        return {requirement_name(release) for release in self.files}

    @model_validator(mode="after")
    def _complete(self) -> "Rule":
        if self.files.keys() != self.mb.keys():
            raise ValueError(f"rule {self.name}: mb needs the releases of files, each once")
        if self.hollow and self.action != "code":
            raise ValueError(f"rule {self.name}: hollow is for the action code")
        return self


class Licence(Model):
    """What a licence says about changed copies, read in the wheels of some distributions."""

    name: Name
    file: Pattern
    """Its text, as RECORD lists it; the build stops when the text is another one."""
    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    of: Annotated[tuple[str, ...], Field(min_length=1)]
    changed: Literal["publish", "own-use"]
    """Whether changed copies may be passed on."""
    says: Text


class RuleFile(Model):
    """``recipes/slim.yaml``: the rules, and the licences of the distributions whose files they change."""

    licences: Annotated[tuple[Licence, ...], unique("licence", attrgetter("name"))] = ()
    rules: Annotated[tuple[Rule, ...], unique("rule", attrgetter("name"))] = ()

    def licence(self, project: str) -> Licence | None:
        """The licence of a distribution, if it was read."""
        return next((licence for licence in self.licences if project in licence.of), None)

    @model_validator(mode="after")
    def _read(self) -> "RuleFile":
        """Every distribution whose files are changed needs a licence that allows it."""
        for rule in self.rules:
            for project in sorted(rule.projects) if rule.action != "drop" else ():
                licence = self.licence(project)
                if licence is None:
                    raise ValueError(f"rule {rule.name} changes files of {project}, whose licence is not listed")
                if rule.publish and licence.changed != "publish":
                    raise ValueError(f"rule {rule.name} needs publish: false, by the licence of {project}")
        return self


def read_rules(text: str) -> RuleFile:
    """The rules; raises UsageError for a file that is not valid."""
    from gb10.core.document import parse_document  # noqa: PLC0415 - YAML, which a kept plan is read without

    return parse_document(text, RuleFile, where=RULES, what="list of slimming rules")


def fits(release: str, wheel: LockedWheel) -> bool:
    """Whether a wheel is of a rule's distribution and releases."""
    return requirement_name(release) == wheel.name and _contains(release, wheel.filename)


@cache
def _contains(release: str, filename: str) -> bool:
    """Each rule is asked of each wheel, in each plan."""
    return parse_requirement(release).specifier.contains(parse_wheel_filename(filename)[1], prereleases=True)
