"""The compiled part of a recipe: sources, and the wheels built from them."""

from typing import Annotated, Final, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from gb10.core.fields import Commit, Model, Name, Pinned, PoolPath, Requirements, Sentence, Target, unique

ALL: Final = "all"
"""Among targets: every target that an engine's project compiles for the arch."""


class Source(Model):
    """A tree that is compiled or unpacked: a project's source archive on the index, or a tag or a commit in git.

    ``paths`` selects files and folders of a repository; empty means all. ``submodules`` lists, by path, the submodules
    in the tree: the parent gives the commit and the URL.
    """

    sdist: Pinned | None = None
    git: Annotated[str, StringConstraints(pattern=r"^(https|ssh|file)://\S+$")] | None = None
    tag: Annotated[str, StringConstraints(pattern=r"^v?\d+(\.\d+)+$")] | None = None
    commit: Commit | None = None
    paths: Annotated[tuple[PoolPath, ...], unique("the path", str)] = ()
    submodules: Annotated[tuple[PoolPath, ...], unique("the submodule", str)] = ()

    @model_validator(mode="after")
    def _one_of(self) -> Self:
        pins = (self.tag is not None) + (self.commit is not None)
        of_git = pins + len(self.paths) + len(self.submodules)
        if bool(self.sdist) == bool(self.git) or pins != bool(self.git) or (self.sdist and of_git):
            raise ValueError(
                "needs either sdist: NAME==VERSION, or git: URL with tag: vX.Y.Z or commit: <40 hex> "
                "(and paths: [...], submodules: [...])"
            )
        return self

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
    """

    method: Literal["aot", "extension", "source"]
    source: Name
    kernels: Name | None = None
    headers: tuple[Name, ...] = ()
    """Image wheels that provide target headers and libraries to the compile."""
    targets: Annotated[tuple[Target, ...], unique("the target", str)] = ()
    nested: dict[Name, Annotated[tuple[Target, ...], Field(min_length=1), unique("the target", str)]] = {}
    """Projects that the engine's build fetches from git, and that sources of the same name replace, each with its
    targets: the source is passed to the build when one of them is compiled."""
    cutlass: Cutlass | None = None
    tools: Requirements = ()
    """Wheels for the build stage of this wheel alone; a closed list, like the recipe's own tools."""

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
            raise ValueError(f"targets: {ALL} excludes other targets")
        if compiled and not self.cutlass:
            raise ValueError("method source needs cutlass: {source: NAME}")
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
