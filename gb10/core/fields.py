"""The field types of recipes and locks, and their base model."""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints
from pydantic_core import PydanticCustomError

if TYPE_CHECKING:
    from packaging.requirements import Requirement

Architecture = Literal["amd64", "arm64"]
ARCHITECTURES: Final[tuple[Architecture, ...]] = ("amd64", "arm64")
LONGEST: Final = 4096
"""Characters of a requirement, a release or a pattern."""
DEEPEST: Final = 16
"""Parentheses in the marker of a requirement."""


PINNED: Final = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)==[0-9]+(\.[0-9]+)*(\.post[0-9]+)?")
"""The plainest requirement, which is read without a parser of requirements."""


@lru_cache(maxsize=4096)
def requirement_name(text: str) -> str:
    """The canonical project name of a requirement; raises InvalidRequirement."""
    plain = PINNED.fullmatch(text)
    return str(canonicalize_name(plain[1] if plain else parse_requirement(text).name))


Errors = type[Exception] | tuple[type[Exception], ...]


def accepted(read: Callable[[str], object], error: Errors, complaint: str) -> AfterValidator:
    """Accept a text that ``read`` accepts; ``complaint`` is the error, with ``{text}`` and ``{reason}``."""

    def check(text: str) -> str:
        if len(text) > LONGEST:
            raise ValueError(f"it has {len(text)} characters; the limit is {LONGEST}")
        try:
            read(text)
        except error as reason:
            raise ValueError(complaint.format(text=repr(text), reason=str(reason).partition("\n")[0])) from reason
        return text

    return AfterValidator(check)


def parse_requirement(text: str) -> "Requirement":
    """A requirement; raises InvalidRequirement, also for one that nests too deeply."""
    from packaging.requirements import InvalidRequirement, Requirement  # noqa: PLC0415 - a kept plan is read without

    if text.count("(") > DEEPEST:  # packaging parses them by recursion
        raise InvalidRequirement(f"it has more than {DEEPEST} parentheses")
    return Requirement(text)


def _specifiers(text: str) -> None:
    from packaging.specifiers import SpecifierSet  # noqa: PLC0415 - as above

    SpecifierSet(text)


def _pinned(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._-]+==[^*,;\s]+", text):
        raise ValueError(f"{text!r} needs one exact version: name==version")
    return text


def _index_url(text: str) -> str:
    if not re.fullmatch(r"(https://[\w.-]+(:\d+)?|http://(localhost|127\.0\.0\.1)(:\d+)?)(/[\w.~%+/-]*)?", text):
        raise ValueError("an index is https://HOST/PATH without a password (http:// only on this machine itself)")
    return text


COMMIT_PLACE: Final = "{commit}"
"""What stands for a commit's 40 digits in the URL of its index."""


def _commit_index(text: str) -> str:
    head, place, tail = text.partition(COMMIT_PLACE)
    if not place or COMMIT_PLACE in tail or "/" not in head.partition("://")[2]:
        raise ValueError("it is https://HOST/PATH with {commit} once in its path, where the 40 digits go")
    _index_url(f"{head}{'0' * 40}{tail}")
    return text


def _below(path: str) -> str:
    if not path.isprintable() or {"", ".", ".."} & {*path.split("/")}:
        raise ValueError(f"{path!r} is not a plain path below the root")
    return path


def unique(what: str, identity: Callable[[Any], str]) -> AfterValidator:
    """Reject a duplicate entry; the error has the entry's index for the loader."""

    def check(entries: tuple[Any, ...]) -> tuple[Any, ...]:
        first: dict[str, int] = {}
        for index, entry in enumerate(entries):
            name = identity(entry)
            if first.setdefault(name, index) != index:
                context = {"what": what, "name": name, "index": index, "first": first[name]}
                raise PydanticCustomError("duplicate_entry", "{what} {name} is listed twice", context)
        return entries

    return AfterValidator(check)


def _project(text: str) -> str:
    """One project may be required twice only under different markers."""
    marker = parse_requirement(text).marker
    return requirement_name(text) + (f" ; {marker}" if marker else "")


Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]*$")]
Target = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Variable = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=200)]
"""The name of an environment variable."""
Sentence = Annotated[str, StringConstraints(min_length=10)]
Commit = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Filename = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+!~%-]*$", max_length=255)]
Folder = Annotated[str, AfterValidator(_below)]
PoolPath = Annotated[str, StringConstraints(pattern=r"^[^/\s:][^\s:]*$", max_length=1000), AfterValidator(_below)]
Size = Annotated[int, Field(ge=0, le=1 << 50)]
Cuda = Annotated[str, StringConstraints(pattern=r"^(none|\d+\.\d+)$")]
RequirementText = Annotated[str, accepted(parse_requirement, ValueError, "{text} is not a requirement: {reason}")]
Release = Annotated[str, accepted(Version, InvalidVersion, "{text} is not a release: write for example '0.24.0'")]
Releases = Annotated[
    str,
    accepted(_specifiers, ValueError, "{text} is not a range of releases: write for example '>=0.24,<0.34'"),
]
Pinned = Annotated[str, AfterValidator(_pinned)]
IndexUrl = Annotated[str, AfterValidator(_index_url)]
CommitIndexUrl = Annotated[str, AfterValidator(_commit_index)]
"""The URL of an index that each commit has of its own."""
Requirements = Annotated[tuple[RequirementText, ...], unique("the requirement", _project)]
DebNames = Annotated[
    tuple[Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.+-]+(:[a-z0-9]+)?$")], ...],
    unique("the package", str),
]
Patterns = Annotated[tuple[str, ...], unique("the pattern", str)]


class Model(BaseModel):
    """Strict and frozen; keys are written with hyphens in files, with underscores in Python."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        populate_by_name=True,
        defer_build=True,  # a verb loads many models and reads few documents
        alias_generator=lambda name: name.replace("_", "-"),
    )
