"""An image recipe: written by a person, ``recipes/images/<engine>.yaml``."""

import datetime
from typing import Annotated, Self

from packaging.requirements import Requirement
from pydantic import Field, StringConstraints, model_validator

from gb10.core.fields import (
    Architecture,
    DebNames,
    IndexUrl,
    Model,
    Name,
    Patterns,
    Requirements,
    RequirementText,
    Sentence,
    Variable,
    requirement_name,
    unique,
)
from gb10.image.recipe.builds import Source, WheelBuild


class BasePackages(Model):
    """Debian packages by purpose; ``lock`` adds what they depend on.

    ``cross`` is by build architecture: packages for cross-builds only.
    """

    image: DebNames
    build: DebNames = ()
    cross: dict[Architecture, DebNames] = {}


class Base(Model):
    """The Debian release under the image and under the build stages."""

    suite: Name
    packages: BasePackages


class Override(Model):
    """A requirement that replaces the packages' own declarations, and the reason."""

    requirement: RequirementText
    why: Sentence


class NamedIndex(Model):
    """A further package index, and the projects that come only from it; no other project is looked up there."""

    url: IndexUrl
    packages: Annotated[tuple[Name, ...], Field(min_length=1)]


class Layer(Model):
    """One churn class of the image: the locked wheels whose names match; the first match wins."""

    name: Name
    packages: Patterns = ()
    rest: bool = False
    optional: bool = False
    """Whether ``--without NAME`` leaves it out."""

    @model_validator(mode="after")
    def _one_of(self) -> Self:
        if self.rest == bool(self.packages):
            raise ValueError("needs either packages: [...] or rest: true")
        return self


class Recipe(Model):
    """How an image is built: versions, packages, sources, wheels, layers, run-time settings."""

    engine: Name
    version: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+!-]*$", max_length=100)]
    repository: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+([._/-][a-z0-9]+)*$")]
    python: Annotated[str, StringConstraints(pattern=r"^3\.[0-9]{1,2}$")]
    cuda: Annotated[str, StringConstraints(pattern=r"^\d+\.\d+$")]
    base: Base
    requirements: Requirements
    constraints: Requirements = ()
    overrides: Annotated[tuple[Override, ...], unique("the override", lambda o: requirement_name(o.requirement))] = ()
    exclude_newer: datetime.date | None = None
    indexes: dict[Name, NamedIndex] = {}
    tools: Requirements = ()
    sources: dict[Name, Source] = {}
    wheels: dict[Name, WheelBuild] = {}
    patches: Annotated[tuple[Name, ...], unique("the series", str)] = ()
    """The series that are applied, by source: to the locked wheels, and to the source archives that are compiled."""
    layers: Annotated[tuple[Layer, ...], unique("the layer", lambda layer: str(layer.name))]
    env: dict[Variable, str] = {}
    user: Annotated[int, Field(ge=0)] = 0
    """The uid that a container starts with, unless ``docker run --user`` names another."""
    workdir: Annotated[str, StringConstraints(pattern=r"^/")]
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()

    @property
    def index_of(self) -> dict[str, str]:
        """Project -> the URL of its only index; all other projects come from the user's index."""
        return {name: index.url for index in self.indexes.values() for name in index.packages}

    def project(self, source: str) -> str:
        """The project of a source: its archive's name on the index, or the source's own name for git."""
        sdist = self.sources[source].sdist
        return requirement_name(sdist) if sdist else source

    @property
    def built(self) -> dict[str, WheelBuild]:
        """The wheels to build: all except an engine's project without selected targets."""
        return {name: wheel for name, wheel in self.wheels.items() if wheel.method != "source" or wheel.targets}

    @property
    def all_tools(self) -> tuple[str, ...]:
        """The requirements of all build stages."""
        return (*self.tools, *(tool for wheel in self.wheels.values() for tool in wheel.tools))

    @model_validator(mode="after")
    def _named(self) -> Self:
        """uv binds a project to an index only through a requirement; an override would silently undo it."""
        required = {requirement_name(text) for text in (*self.requirements, *self.all_tools)}
        overridden = {requirement_name(override.requirement) for override in self.overrides}
        taken: dict[str, str] = {}
        for name, index in self.indexes.items():
            for project in index.packages:
                if taken.setdefault(project, name) != name:
                    raise ValueError(f"indexes {taken[project]} and {name} both name {project}")
                if project not in required:
                    raise ValueError(f"indexes.{name} names {project}, which is not in requirements: add it there")
                if project in overridden:
                    raise ValueError(
                        f"indexes.{name} names {project}, which an override replaces: put it in requirements instead"
                    )
        return self

    @model_validator(mode="after")
    def _references(self) -> Self:
        for name, wheel in self.wheels.items():
            for source in (*wheel.sources, *wheel.nested):
                if source not in self.sources:
                    raise ValueError(f"wheels.{name} names the source {source!r}, which sources does not define")
            archive = next((nested for nested in wheel.nested if not self.sources[nested].git), None)
            if archive:
                raise ValueError(f"wheels.{name} nests {archive}: name it by git: URL, as the engine's project does")
        projects = [self.project(source) for source in self.sources]
        twice = next((name for index, name in enumerate(projects) if name in projects[:index]), None)
        if twice:
            raise ValueError(f"two sources are for the project {twice}: rename the git source")
        pins = [text for text in self.requirements if requirement_name(text) == self.engine]
        if pins and str(Requirement(pins[0]).specifier) != f"=={self.version}":
            raise ValueError(f"version is {self.version}, but requirements pin {pins[0]}: image tags would be wrong")
        rests = [layer.name for layer in self.layers if layer.rest]
        if len(rests) > 1:
            raise ValueError(f"only one layer may have rest: true, found {', '.join(rests)}")
        return self
