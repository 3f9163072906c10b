"""What an image recipe and its lock may say: frozen, strict models; no I/O.

A recipe is written by a person (``recipes/images/<engine>.yaml``), a lock by ``lock``
(``recipes/images/<engine>.lock.json``). A lock names files by content, never by host.
"""

import datetime
import re
from collections.abc import Callable
from typing import Annotated, Any, Final, Literal, Self

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

Architecture = Literal["amd64", "arm64"]
ARCHITECTURES: Final[tuple[Architecture, ...]] = ("amd64", "arm64")
ALL: Final = "all"
"""Among targets: every target that an engine's project compiles for the arch."""


def requirement_name(text: str) -> str:
    """The canonical project name that a requirement speaks of."""
    return str(canonicalize_name(Requirement(text).name))


def _requirement(text: str) -> str:
    try:
        Requirement(text)
    except InvalidRequirement as error:
        raise ValueError(f"{text!r} is no requirement: {str(error).splitlines()[0]}") from error
    return text


def _pinned(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._-]+==[^*,;\s]+", text):
        raise ValueError(f"{text!r} needs one exact version: name==version")
    return text


def _index_url(text: str) -> str:
    if not re.fullmatch(r"(https://[\w.-]+(:\d+)?|http://(localhost|127\.0\.0\.1)(:\d+)?)(/[\w.~%+/-]*)?", text):
        raise ValueError("an index is https://HOST/PATH without a password (http:// only on this machine itself)")
    return text


def _unique(what: str, identity: Callable[[Any], str]) -> AfterValidator:
    """Refuse a second entry of one identity; the error carries the entry's index for the loader."""

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
    marker = Requirement(text).marker
    return requirement_name(text) + (f" ; {marker}" if marker else "")


Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]*$")]
Target = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Sentence = Annotated[str, StringConstraints(min_length=10)]
Commit = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Filename = Annotated[str, StringConstraints(pattern=r"^[^/\s]+$")]
PoolPath = Annotated[str, StringConstraints(pattern=r"^[^/\s:][^\s:]*$")]
Size = Annotated[int, Field(ge=0)]
Cuda = Annotated[str, StringConstraints(pattern=r"^(none|\d+\.\d+)$")]
Requirements = Annotated[
    tuple[Annotated[str, AfterValidator(_requirement)], ...], _unique("the requirement", _project)
]  # fmt: skip
DebNames = Annotated[
    tuple[Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.+-]+(:[a-z0-9]+)?$")], ...],
    _unique("the package", str),
]
Patterns = Annotated[tuple[str, ...], _unique("the pattern", str)]


class Model(BaseModel):
    """Strict and frozen; keys are written with hyphens in files, with underscores in Python."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        populate_by_name=True,
        alias_generator=lambda name: name.replace("_", "-"),
    )


class BasePackages(Model):
    """Debian packages by purpose; ``lock`` adds what they depend on.

    ``cross`` is by build architecture: what only a build for the other architecture needs.
    """

    image: DebNames
    build: DebNames = ()
    cross: dict[Architecture, DebNames] = {}


class Base(Model):
    """The Debian release under the image and under the build stages."""

    suite: Name
    packages: BasePackages


class Override(Model):
    """A requirement that replaces what the packages themselves declare, and the reason to do so."""

    requirement: Annotated[str, AfterValidator(_requirement)]
    why: Sentence


class NamedIndex(Model):
    """A further package index, and the projects that come from it alone: nothing else is ever looked up there."""

    url: Annotated[str, AfterValidator(_index_url)]
    packages: Annotated[tuple[Name, ...], Field(min_length=1)]


class Source(Model):
    """A tree that is compiled or unpacked: a project's source archive on the index, or a tag or a commit in git.

    ``paths`` are the files and folders that are taken of a repository: all when none is named. Of its submodules those
    are in the tree that ``submodules`` names, by path: the parent says which commit, and where it lies.
    """

    sdist: Annotated[str, AfterValidator(_pinned)] | None = None
    git: Annotated[str, StringConstraints(pattern=r"^(https|ssh|file)://\S+$")] | None = None
    tag: Annotated[str, StringConstraints(pattern=r"^v?\d+(\.\d+)+$")] | None = None
    commit: Commit | None = None
    paths: Annotated[tuple[PoolPath, ...], _unique("the path", str)] = ()
    submodules: Annotated[tuple[PoolPath, ...], _unique("the submodule", str)] = ()

    @model_validator(mode="after")
    def _one_of(self) -> Self:
        pins = (self.tag is not None) + (self.commit is not None)
        of_git = pins + len(self.paths) + len(self.submodules)
        if bool(self.sdist) == bool(self.git) or pins != bool(self.git) or (self.sdist and of_git):
            raise ValueError("needs either sdist: NAME==VERSION, or git: URL with tag: vX.Y.Z or commit: <40 hex> "
                             "(and paths: [...], submodules: [...])")  # fmt: skip
        return self

    @property
    def pin(self) -> str:
        """What is taken from git: the tag, or the commit; empty for a source archive."""
        return self.tag or self.commit or ""

    @property
    def version(self) -> str:
        """The version that a tree from git counts as: a tag's, or a local version of no release's."""
        return self.tag.removeprefix("v") if self.tag else f"0+g{(self.commit or '')[:12]}"


class Cutlass(Model):
    """Which source brings the CUTLASS that an engine is compiled with; it must be the release that the engine names.

    ``instead_of`` names the engine's own where another is meant on purpose, ``why`` the reason.
    """

    source: Name
    instead_of: Annotated[str, StringConstraints(pattern=r"^v\d+(\.\d+)+$")] | None = None
    why: Sentence | None = None

    @model_validator(mode="after")
    def _reason(self) -> Self:
        if bool(self.instead_of) != bool(self.why):
            raise ValueError("instead-of and why belong together: which release is replaced, and the reason")
        return self


class WheelBuild(Model):
    """A wheel that is built here: ``aot``, kernels of a source of this recipe, by the source's own driver.

    ``extension``, kernels of our own (``kernels/<set>/``), linked into torch operators; the source brings CUTLASS.
    ``source``, CMake targets of the engine's own project; what they install replaces that of upstream's wheel, and
    without targets that wheel stays as it is. ``all`` are all that the project compiles for the arch.
    """

    method: Literal["aot", "extension", "source"]
    source: Name
    kernels: Name | None = None
    headers: tuple[Name, ...] = ()
    """Wheels of the image that the compile reads headers and libraries of the target from."""
    targets: Annotated[tuple[Target, ...], _unique("the target", str)] = ()
    nested: dict[Name, Annotated[tuple[Target, ...], Field(min_length=1), _unique("the target", str)]] = {}
    """Of the projects that the engine's own fetches from git, those that sources of the same names stand for, each with
    its targets: it is handed in when one of them is compiled."""
    cutlass: Cutlass | None = None
    tools: Requirements = ()
    """Wheels for the build stage of this wheel alone; a closed list, as the recipe's own tools."""

    @model_validator(mode="after")
    def _torch(self) -> Self:
        if self.method != "aot" and "torch" not in self.headers:
            raise ValueError(f"method {self.method} links against torch: name torch in headers")
        return self

    @model_validator(mode="after")
    def _of_its_method(self) -> Self:
        compiled = self.method == "source"
        if compiled == bool(self.kernels):
            raise ValueError(f"method {self.method} {'knows no' if compiled else 'needs'} kernels: NAME")
        if not compiled and (self.targets or self.nested or self.cutlass or self.tools):
            raise ValueError("targets, nested, cutlass and tools are for method source")
        if ALL in self.targets and len(self.targets) > 1:
            raise ValueError(f"targets: {ALL} stands alone")
        if compiled and not self.cutlass:
            raise ValueError("method source needs cutlass: {source: NAME}")
        return self

    @property
    def cutlass_source(self) -> str:
        """The source that brings the CUTLASS which it is compiled with."""
        return self.cutlass.source if self.cutlass else self.source

    @property
    def handed_in(self) -> tuple[str, ...]:
        """The nested projects that its targets are compiled from."""
        return tuple(
            name for name, own in sorted(self.nested.items()) if ALL in self.targets or {*own} & {*self.targets}
        )

    @property
    def sources(self) -> tuple[str, ...]:
        """The sources that it is compiled from."""
        return tuple(dict.fromkeys((self.source, self.cutlass_source, *self.handed_in)))


class Layer(Model):
    """One churn class of the image: the locked wheels whose names match; the first match wins."""

    name: Name
    packages: Patterns = ()
    rest: bool = False

    @model_validator(mode="after")
    def _one_of(self) -> Self:
        if self.rest == bool(self.packages):
            raise ValueError("needs either packages: [...] or rest: true")
        return self


class Recipe(Model):
    """How an image is built: versions, packages, sources, wheels, layers, run-time settings."""

    engine: Name
    version: str
    repository: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+([._/-][a-z0-9]+)*$")]
    python: Annotated[str, StringConstraints(pattern=r"^3\.\d+$")]
    cuda: Annotated[str, StringConstraints(pattern=r"^\d+\.\d+$")]
    base: Base
    requirements: Requirements
    constraints: Requirements = ()
    overrides: Annotated[tuple[Override, ...], _unique("the override", lambda o: requirement_name(o.requirement))] = ()
    exclude_newer: datetime.date | None = None
    indexes: dict[Name, NamedIndex] = {}
    tools: Requirements = ()
    sources: dict[Name, Source] = {}
    wheels: dict[Name, WheelBuild] = {}
    patches: Annotated[tuple[Name, ...], _unique("the series", str)] = ()
    """The series that are applied, by source: to the locked wheels, and to the source archives that are compiled."""
    layers: Annotated[tuple[Layer, ...], _unique("the layer", lambda layer: str(layer.name))]
    env: dict[str, str] = {}
    user: Annotated[int, Field(ge=0)] = 10001
    workdir: Annotated[str, StringConstraints(pattern=r"^/")]
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()

    @property
    def index_of(self) -> dict[str, str]:
        """Project -> the URL of the only index that is asked for it; the user's own are asked for all others."""
        return {name: index.url for index in self.indexes.values() for name in index.packages}

    def project(self, source: str) -> str:
        """Whose a source is: the project that its archive has on the index; one from git has the source's own name."""
        sdist = self.sources[source].sdist
        return requirement_name(sdist) if sdist else source

    @property
    def built(self) -> dict[str, WheelBuild]:
        """The wheels that are built: all but an engine's project none of whose targets is asked for."""
        return {name: wheel for name, wheel in self.wheels.items() if wheel.method != "source" or wheel.targets}

    @property
    def all_tools(self) -> tuple[str, ...]:
        """The requirements of all build stages."""
        return (*self.tools, *(tool for wheel in self.wheels.values() for tool in wheel.tools))

    @model_validator(mode="after")
    def _named(self) -> Self:
        """uv binds a project to an index by a requirement alone, and an override would undo it without a word."""
        required = {requirement_name(text) for text in (*self.requirements, *self.all_tools)}
        overridden = {requirement_name(override.requirement) for override in self.overrides}
        taken: dict[str, str] = {}
        for name, index in self.indexes.items():
            for project in index.packages:
                if taken.setdefault(project, name) != name:
                    raise ValueError(f"indexes {taken[project]} and {name} both name {project}")
                if project not in required:
                    raise ValueError(f"indexes.{name} names {project}, which requirements do not ask for: add it there")
                if project in overridden:
                    raise ValueError(f"indexes.{name} names {project}, which an override replaces: require it instead")
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
            raise ValueError(f"two sources are of the project {twice}: give the one from git another name")
        pins = [text for text in self.requirements if requirement_name(text) == self.engine]
        if pins and str(Requirement(pins[0]).specifier) != f"=={self.version}":
            raise ValueError(f"version is {self.version}, and requirements ask for {pins[0]}: tags would not be true")
        rests = [layer.name for layer in self.layers if layer.rest]
        if len(rests) > 1:
            raise ValueError(f"only one layer may say rest: true, found {', '.join(rests)}")
        return self


class LockedDeb(Model):
    """One Debian package; ``path`` is relative to the root of any mirror of the archive."""

    name: str
    version: str
    architecture: str
    path: PoolPath
    sha256: Sha256
    size: Size

    @property
    def filename(self) -> str:
        """The file's own name, as the archive spells it."""
        return self.path.rsplit("/", 1)[-1]


class IndexFile(Model):
    """One file of the package index; ``size`` in bytes."""

    name: Name
    version: str
    filename: Filename
    sha256: Sha256
    size: Size


class LockedWheel(IndexFile):
    """One wheel, the best for its platform; of torch also the CUDA that it is built with, or ``none``."""

    cuda: Cuda | None = None


class LockedSdist(IndexFile):
    """One source archive."""


class LockedCheckout(IndexFile):
    """A commit's files as git archives them; the recipe says where git has them.

    ``input_digest`` is over what the recipe says of it.
    """

    commit: Commit
    input_digest: Sha256


class LockedDebs(Model):
    """Debian packages of the image by image architecture, of the build stages by build architecture."""

    image: dict[Architecture, tuple[LockedDeb, ...]]
    build: dict[Architecture, tuple[LockedDeb, ...]]


class LockedWheels(Model):
    """Wheels of the image by image architecture, of the build tools by build architecture."""

    image: dict[Architecture, tuple[LockedWheel, ...]]
    tools: dict[Architecture, tuple[LockedWheel, ...]]


class Lock(Model):
    """Every byte that goes in; ``created`` is the UTC day of the locking.

    ``input_digest`` is over all of the recipe that decides a resolution, ``base_digest`` over its Debian part. Each
    source from git has a digest of its own: it is read by wheels that are compiled from it, and decides nothing else.
    """

    version: Literal[1] = 1
    input_digest: Sha256
    base_digest: Sha256
    created: datetime.date
    debs: LockedDebs
    wheels: LockedWheels
    sdists: dict[Name, LockedSdist | LockedCheckout]
