"""What a commit of an engine requires, by its own files: pyproject.toml, else requirements/*.txt. Pure."""

import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from packaging.requirements import InvalidRequirement, Requirement

from gb10.core.fields import LONGEST, parse_requirement
from gb10.errors import UsageError
from gb10.image.lock.moves import Demand, of_requirements
from gb10.image.patches.source_tree import Tree

PROJECTS: Final = ("pyproject.toml", "python/pyproject.toml")
LISTS: Final = ("requirements/cuda.txt", "requirements-cuda.txt", "requirements.txt", "requirements/common.txt")
"""The first of these counts, with those that it names by -r."""
LARGEST: Final = 1 << 20
"""Bytes of such a file."""
DEEPEST: Final = 8
MOST: Final = 2000
"""Lines with a requirement."""
OTHER: Final = re.compile(r"\s*-(?:r|-requirement)[ =]\s*(\S+)\s*")
PYTHON: Final = "3.13"
MACHINE: Final = "aarch64"


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """The requirements that count on Linux and aarch64, and the files that they are from."""

    demands: tuple[Demand, ...]
    files: tuple[str, ...]


def required(tree: Tree, what: str, python: str = PYTHON) -> Wanted:
    """The requirements of a tree. Raises UsageError for a tree without any, or with lines that are none."""
    for name in PROJECTS:
        texts = _of_project(_text(tree, name), name)
        if texts:
            return Wanted(demands=of_requirements(_parsed(texts, name), python, MACHINE), files=(name,))
    for name in LISTS:
        if _text(tree, name):
            files: list[str] = []
            lines = list(_lines(tree, name, files, 0))[:MOST]
            return Wanted(demands=of_requirements(_parsed(lines, name), python, MACHINE), files=tuple(files))
    raise UsageError(
        f"{what} says nowhere what it requires",
        where=f"looked for: {', '.join((*PROJECTS, *LISTS))}",
        hint="name a commit of the engine's own repository, or of a fork of it",
    )


def _text(tree: Tree, name: str) -> str:
    content = tree.read(name)
    return content.decode("utf-8", "replace") if content is not None and len(content) <= LARGEST else ""


def _of_project(text: str, name: str) -> list[str]:
    """The dependencies of a pyproject.toml; none where a build script computes them."""
    try:
        project = tomllib.loads(text).get("project", {})
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{name} of the commit is no TOML", where=str(error)) from error
    found = project.get("dependencies", []) if isinstance(project, dict) else []
    return [one for one in found if isinstance(one, str)][:MOST] if isinstance(found, list) else []


def _lines(tree: Tree, name: str, files: list[str], depth: int) -> Iterator[str]:
    """The requirements of a file, and of those that it names."""
    if name in files or depth > DEEPEST:
        return
    files.append(name)
    for line in _text(tree, name).splitlines():
        plain = re.sub(r"(^|\s)#.*$", "", line).strip()
        other = OTHER.fullmatch(plain)
        if other:
            place = PurePosixPath(name).parent / other[1]
            if ".." not in place.parts and not place.is_absolute():
                yield from _lines(tree, str(place), files, depth + 1)
        elif plain and not plain.startswith("-"):
            yield plain


def _parsed(texts: Iterable[str], where: str) -> Iterator[Requirement]:
    for text in texts:
        try:
            if len(text) > LONGEST:
                raise InvalidRequirement("it is too long")
            yield parse_requirement(text)
        except InvalidRequirement as error:
            raise UsageError(
                f"{where} of the commit has a line that is no requirement", where=f"{text[:LONGEST]}: {error}"
            ) from error


@dataclass(frozen=True, kw_only=True, slots=True)
class Otherwise:
    """A project that a commit requires otherwise than its release. ``before`` is None where only the commit does."""

    project: str
    before: str | None
    after: Demand

    def __str__(self) -> str:
        new = f"{self.project}{self.after.specifier}"
        return f"{new} (new)" if self.before is None else f"{new} (before: {self.before or 'any'})"


def differences(before: Iterable[Demand], after: Iterable[Demand]) -> tuple[Otherwise, ...]:
    """What a commit requires otherwise, by project. What it requires no longer is not among it: it does no harm."""
    old = {demand.project: str(demand.specifier) for demand in before if not demand.extra}
    return tuple(
        Otherwise(project=demand.project, before=old.get(demand.project), after=demand)
        for demand in sorted(after, key=lambda demand: demand.project)
        if not demand.extra and old.get(demand.project) != str(demand.specifier)
    )
