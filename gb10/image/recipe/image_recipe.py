"""An image recipe: written by a person, ``recipes/images/<engine>.yaml``."""

import datetime
from typing import Annotated, Final, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from gb10.core.fields import (
    Architecture,
    Commit,
    CommitIndexUrl,
    DebNames,
    Folder,
    IndexUrl,
    Model,
    Name,
    Patterns,
    Pinned,
    PoolPath,
    Requirements,
    RequirementText,
    Sentence,
    Target,
    Variable,
    parse_requirement,
    requirement_name,
    unique,
)

ALL: Final = "all"
"""Among targets: every target that an engine's project compiles for the arch."""
PACKAGE_HEADERS: Final = (
    "nvidia-cublas",
    "nvidia-cuda-cccl",
    "nvidia-cuda-crt",
    "nvidia-cuda-nvcc",
    "nvidia-cuda-nvrtc",
    "nvidia-cuda-runtime",
    "nvidia-cufft",
    "nvidia-curand",
    "nvidia-cusolver",
    "nvidia-cusparse",
    "nvidia-nvtx",
    "torch",
)
"""What torch's own headers include, and torch."""
WHOLE: Final = ("package", "library")
"""Methods that run a project's own build, whatever it is."""
COMMIT_WHEELS: Final = "commit-wheels"
"""The name, among a recipe's indexes, of the one of a commit; what it has is kept in the store."""
OF_STAGE: Final = (
    *("CC", "CXX", "CUDACXX", "CUDA_HOME", "CUDA_PATH", "CUDAARCHS", "TORCH_CUDA_ARCH_LIST", "MAX_JOBS"),
    *("CMAKE_BUILD_PARALLEL_LEVEL", "CMAKE_GENERATOR", "CMAKE_TOOLCHAIN_FILE", "TORCH_EXTENSIONS_DIR"),
    *("TORCH_NO_COMPILER_WRAPPER", "PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED", "PYTHONPATH"),
    *("_PYTHON_HOST_PLATFORM", "_PYTHON_SYSCONFIGDATA_NAME"),
    *("PATH", "HOME", "LD_LIBRARY_PATH", "LD_PRELOAD", "SITE", "SOURCE_DATE_EPOCH"),
)
"""Variables of a package's build that decide what the arch, the machine and the pool decide: all of package.py's
``environment``, and what its stage sets. Those of OF_STAGE_PREFIXES, too."""
OF_STAGE_PREFIXES: Final = ("CCACHE_", "GB10_")
"""How variables of the compile cache and of the stage's own scripts begin."""


class Source(Model):
    """A tree that is compiled or unpacked: a project's source archive on the index, or a tag or a commit in git.

    ``paths`` selects files and folders of a repository; empty means all. ``submodules`` lists, by path, the submodules
    in the tree: the parent gives the commit and the URL. ``wheel``: a wheel for every machine that brings its sources,
    and compiles them when it is used.
    """

    sdist: Pinned | None = None
    wheel: Pinned | None = None
    git: Annotated[str, StringConstraints(pattern=r"^(https|ssh|file)://\S+$")] | None = None
    tag: Annotated[str, StringConstraints(pattern=r"^v?\d+(\.\d+)+$")] | None = None
    commit: Commit | None = None
    paths: Annotated[tuple[PoolPath, ...], unique("the path", str)] = ()
    submodules: Annotated[tuple[PoolPath, ...], unique("the submodule", str)] = ()

    @model_validator(mode="after")
    def _one_of(self) -> Self:
        pins = (self.tag is not None) + (self.commit is not None)
        of_git = pins + len(self.paths) + len(self.submodules)
        origins = bool(self.sdist) + bool(self.git) + bool(self.wheel)
        if origins != 1 or pins != bool(self.git) or (not self.git and of_git):
            raise ValueError(
                "needs either sdist: NAME==VERSION, or git: URL with tag: vX.Y.Z or commit: <40 hex> "
                "(and paths: [...], submodules: [...]), or wheel: NAME==VERSION"
            )
        return self

    @property
    def pinned(self) -> str | None:
        """The release on the index, None for git."""
        return self.sdist or self.wheel

    @property
    def pin(self) -> str:
        """The git tag or commit; empty for a source archive."""
        return self.tag or self.commit or ""

    @property
    def version(self) -> str:
        """The version of a git tree: the tag's, or ``0+g`` and 12 digits of the commit."""
        return self.tag.removeprefix("v") if self.tag else f"0+g{(self.commit or '')[:12]}"


class Cutlass(Model):
    """Which source brings the CUTLASS that an engine is compiled with; it must be the release that the engine names.

    ``instead_of`` names the engine's own release when the recipe replaces it; ``why`` gives the reason.
    """

    source: Name
    instead_of: Annotated[str, StringConstraints(pattern=r"^v\d+(\.\d+)+$")] | None = None
    why: Sentence | None = None

    @model_validator(mode="after")
    def _reason(self) -> Self:
        if bool(self.instead_of) != bool(self.why):
            raise ValueError("instead-of and why go together: the replaced release, and the reason")
        return self


class WheelBuild(Model):
    """A wheel that is built here: ``aot``, FlashInfer's kernels, by FlashInfer's own driver.

    ``extension``, kernels of our own (``kernels/<set>/``), linked into torch operators; the source brings CUTLASS.
    ``source``, CMake targets of the engine's own project; what they install replaces that of upstream's wheel, and
    without targets that wheel stays as it is. ``all`` means every target that the project compiles for the arch.
    ``package``, a project with a build of its own (PEP 517), whose compilers are for the image's machine and the arch.
    ``library``, a project whose ``commands`` install libraries, which replace those of a locked wheel.
    """

    method: Literal["aot", "extension", "source", "package", "library"]
    source: Name
    kernels: Name | None = None
    headers: tuple[Name, ...] = ()
    """Image wheels that provide target headers and libraries to the compile; of a package, PACKAGE_HEADERS if none."""
    targets: Annotated[tuple[Target, ...], unique("the target", str)] = ()
    nested: dict[Name, Annotated[tuple[Target, ...], Field(min_length=1), unique("the target", str)]] = {}
    """Projects that the engine's build fetches from git, and that sources of the same name replace, each with its
    targets: the source is passed to the build when one of them is compiled."""
    cutlass: Cutlass | None = None
    tools: Requirements = ()
    """Wheels for the build stage of this wheel alone; a closed list, like the recipe's own tools."""
    environment: dict[Variable, str] = {}
    """Of a package: variables that its build reads, for example those that keep it from downloading."""
    jit: Annotated[str, StringConstraints(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$")] | None = None
    """Of a package that is a wheel: the module that compiles when it is imported."""
    commands: tuple[Annotated[tuple[str, ...], Field(min_length=1)], ...] = ()
    """Of a library: what builds and installs it, each as words; $PREFIX and the like (library.py) are filled in."""
    replaces: Name | None = None
    """Of a library: the project of the locked wheel."""
    files: dict[Folder, Folder] = {}
    """Of a library: the wheel's file -> what the commands install below $PREFIX."""
    licence: Annotated[str, StringConstraints(min_length=1, max_length=100)] | None = None
    """Of a library: its licence, as SPDX writes it. Without one the image is not published."""

    @model_validator(mode="after")
    def _torch(self) -> Self:
        if self.method not in ("aot", *WHOLE) and "torch" not in self.headers:
            raise ValueError(f"method {self.method} links against torch: name torch in headers")
        return self

    @model_validator(mode="after")
    def _of_its_method(self) -> Self:
        if self.method in WHOLE:
            return self._of_whole()
        if self.environment or self.jit or self.commands or self.replaces or self.files or self.licence:
            raise ValueError(
                "environment and jit are for method package, commands, replaces, files and licence for library"
            )
        compiled = self.method == "source"
        if compiled == bool(self.kernels):
            raise ValueError(f"method {self.method} {'knows no' if compiled else 'needs'} kernels: NAME")
        if not compiled and (self.targets or self.nested or self.cutlass or self.tools):
            raise ValueError("targets, nested, cutlass and tools are for method source")
        if ALL in self.targets and len(self.targets) > 1:
            raise ValueError(f"targets: {ALL} excludes other targets")
        if compiled and not self.cutlass:
            raise ValueError("method source needs cutlass: {source: NAME}")
        return self

    def _of_whole(self) -> Self:
        if self.kernels or self.targets or self.nested or self.cutlass:
            raise ValueError(f"method {self.method} knows no kernels, targets, nested and cutlass")
        library = self.commands or self.replaces or self.files or self.licence
        if self.method == "library" and not (self.commands and self.replaces and self.files):
            raise ValueError("method library needs commands, replaces and files")
        if self.method == "package" and library:
            raise ValueError("commands, replaces, files and licence are for method library")
        if self.method == "library" and self.jit:
            raise ValueError("jit is for method package")
        if self.method == "package" and not self.tools:
            raise ValueError("method package needs tools: what the project is built with, for example [setuptools]")
        wrong = next(
            (name for name in self.environment if name in OF_STAGE or name.startswith(OF_STAGE_PREFIXES)), None
        )
        if wrong:
            raise ValueError(f"environment: {wrong} is set by the build stage")
        return self

    @property
    def cutlass_source(self) -> str:
        """The source of the CUTLASS that it is compiled with."""
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
    commit_wheels: CommitIndexUrl | None = None
    """The index that each commit of the engine's repository has of its own, with ``{commit}`` in its URL."""
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
        pinned = self.sources[source].pinned
        return requirement_name(pinned) if pinned else source

    @property
    def built(self) -> dict[str, WheelBuild]:
        """The wheels to build: all except an engine's project without selected targets."""
        return {name: wheel for name, wheel in self.wheels.items() if wheel.method != "source" or wheel.targets}

    @property
    def whole_sources(self) -> dict[str, str]:
        """The sources that are built by their own build, whatever it is, each with its project."""
        names = (wheel.source for wheel in self.wheels.values() if wheel.method in WHOLE)
        return {name: self.project(name) for name in names}

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
            if (wheel.jit is not None) != (self.sources[wheel.source].wheel is not None):
                raise ValueError(
                    f"wheels.{name}: jit: MODULE goes with a source that is a wheel, and such a source needs it"
                )
            archive = next((nested for nested in wheel.nested if not self.sources[nested].git), None)
            if archive:
                raise ValueError(f"wheels.{name} nests {archive}: name it by git: URL, as the engine's project does")
        replaced = [wheel.replaces for wheel in self.wheels.values() if wheel.replaces]
        both = next((name for index, name in enumerate(replaced) if name in replaced[:index]), None)
        if both:
            raise ValueError(f"two libraries replace files of {both}: make them one, with the commands of both")
        projects = [self.project(source) for source in self.sources]
        twice = next((name for index, name in enumerate(projects) if name in projects[:index]), None)
        if twice:
            raise ValueError(f"two sources are for the project {twice}: rename the git source")
        pins = [text for text in self.requirements if requirement_name(text) == self.engine]
        if pins and str(parse_requirement(pins[0]).specifier) != f"=={self.version}":
            raise ValueError(f"version is {self.version}, but requirements pin {pins[0]}: image tags would be wrong")
        rests = [layer.name for layer in self.layers if layer.rest]
        if len(rests) > 1:
            raise ValueError(f"only one layer may have rest: true, found {', '.join(rests)}")
        return self


class Layout(Model):
    """``packages`` are the folders that are installed; everything else is compiled, or read by people.

    ``in_repository`` maps folders of the repository to those of its archives, ``in_wheel`` those of the source archive
    to those of the wheel. Folders that no map names are the same in both.
    """

    packages: tuple[Folder, ...] = ()
    in_repository: dict[Folder, Folder] = {}
    in_wheel: dict[Folder, Folder] = {}

    @model_validator(mode="after")
    def _installed(self) -> Self:
        starts = tuple(f"{package}/" for package in self.packages)
        lost = next((folder for folder in self.in_wheel.values() if not f"{folder}/".startswith(starts)), None)
        if lost:
            raise ValueError(f"in-wheel names {lost}, which is in none of the packages")
        return self


PLAIN: Final = Layout.model_construct()
"""Nothing is installed, and every archive has the repository's paths."""
