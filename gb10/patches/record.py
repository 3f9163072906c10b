"""The record beside a patch: the defect in words, and the probe that finds whether a tree has it. Pure."""

import re
from pathlib import PurePosixPath
from typing import Annotated, Final, Literal, Self

from packaging.specifiers import SpecifierSet
from packaging.version import Version
from pydantic import AfterValidator, Field, StringConstraints, model_validator

from gb10.core.fields import Model, Releases, Sentence
from gb10.patches.condition import Pattern, Regex, check_glob

KERNELS: Final = re.compile(r"kernels(/[a-z0-9_-]+)+/[\w.*-]+")
Answer = Literal["needed", "present", "superseded", "absent"]


class Condition(Model):
    """One thing to look at: text or syntax in a file, or in one function of it, and how often it must be there."""

    file: Annotated[str, AfterValidator(check_glob)]
    scope: str | None = None
    regex: Regex | None = None
    ast: Pattern | None = None
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
        """Whether this number of matches is the required one."""
        return number == self.count if isinstance(self.count, int) else number >= int(self.count[2:])


class Case(Model):
    """One shape that a tree can have: all conditions hold, and then the answer."""

    answer: Answer
    why: Annotated[str, StringConstraints(min_length=3)]
    when: Annotated[tuple[Condition, ...], Field(min_length=1)]


def _folder(text: str) -> str:
    path = PurePosixPath(text)
    if not path.parts or path.is_absolute() or ".." in path.parts or str(path) != text:
        raise ValueError(f"{text!r} is no folder below the source's root")
    return text


def _kernels(text: str) -> str:
    if not KERNELS.fullmatch(text):
        raise ValueError(f"{text!r} is no file of our kernels, as kernels/moe/*.cu is")
    return text


Place = Annotated[str, AfterValidator(_folder)]
OurFile = Annotated[str, AfterValidator(_kernels)]


class Record(Model):
    """A defect of an upstream release, and how it is detected.

    ``adds``: a folder of the source -> files of our kernels that the patch lays there.
    ``left``: releases that have the defect and get no patch on purpose, and why.
    ``needs``: other patches of ours, as SOURCE/NNNN-slug, without which it is not applied, or makes no sense.
    ``modules``: those of a kernel set that alone are compiled from what it changes; a build of others does not get it.
    """

    defect: Sentence
    fix: Sentence
    since: str | None = None
    until: str | None = None
    upstream: str | None = None
    proven: Sentence
    adds: dict[Place, Annotated[tuple[OurFile, ...], Field(min_length=1)]] = Field(default_factory=dict)
    left: dict[Releases, Sentence] = Field(default_factory=dict)
    needs: tuple[Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]+/\d{4}-[a-z0-9-]+$")], ...] = ()
    modules: tuple[Annotated[str, StringConstraints(pattern=r"^\w+$")], ...] = ()
    probe: Annotated[tuple[Case, ...], Field(min_length=1)]

    def why_left(self, version: Version) -> str | None:
        """Why a release with the defect gets no patch; None when that is an oversight."""
        release = Version(version.public)
        return next(
            (why for text, why in self.left.items() if SpecifierSet(text, prereleases=True).contains(release)), None
        )
