"""A recipe on an image of others: what a person adds to it. What the image holds decides the rest."""

from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints

from gb10.core.fields import Model, Name, Requirements, Variable
from gb10.image.recipe.base_image import BaseImage
from gb10.image.recipe.image_recipe import Recipe, Source, WheelBuild

Repository = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+([._/-][a-z0-9]+)*$")]
Reference = Annotated[str, StringConstraints(pattern=r"^[^\s@]+(@sha256:[0-9a-f]{64})?$", max_length=500)]
Text = Annotated[str, StringConstraints(min_length=1, max_length=1000)]
FLASHINFER: Final = "flashinfer-python"
NO_ENGINE: Final = "image"
"""How an image without an engine that we know is named."""


class ImageBase(Model):
    """An image of others: ``NAME@sha256:…``, or a tag, which ``lock`` resolves once."""

    image: Reference
    python: Annotated[str, StringConstraints(pattern=r"^(/\S+)?$", max_length=500)] = ""
    """The path of the Python that is meant, in an image with several."""


class OnImage(Model):
    """How an image is built on an image of others. Its entrypoint, user, working directory and environment stay.

    ``requirements`` are wheels that are added: what the image holds keeps its version.
    """

    base: ImageBase
    platform: Literal["linux/arm64", "linux/amd64"] = "linux/arm64"
    engine: Name | None = None
    """The engine that the image must hold; left out, the one that it holds."""
    repository: Repository | None = None
    requirements: Requirements = ()
    constraints: Requirements = ()
    env: dict[Variable, Annotated[str, Field(max_length=1 << 12)]] = {}
    patches: tuple[Text, ...] = ()
    """Diffs, by their paths beside the recipe, or the names of our series; before those of the command line."""
    kernels: Name | None = None
    """The set of FlashInfer's kernels that are compiled for the image, from the sources that it holds."""
    own_kernels: Name | None = None
    """The set of our own kernels that are compiled against the image's torch; our patches of its engine call them."""
    mods: tuple[Text, ...] = ()
    """Mods, by name or by their paths beside the recipe; baked before those of the command line."""

    @property
    def compiles(self) -> bool:
        """Whether kernels are compiled for the image."""
        return bool(self.kernels or self.own_kernels)

    def without_kernels(self) -> "OnImage":
        """The same image, as it is without compiled kernels."""
        return self.model_copy(update={"kernels": None, "own_kernels": None})


def derived(given: OnImage, base: BaseImage, build: Recipe) -> Recipe:
    """The recipe that a plan reads: ``given`` and what the image holds. Build stages have the Debian of ``build``.

    An image without Python or torch gives no version of either: these fields are empty then. Pure.
    """
    engine = base.engine or NO_ENGINE
    compiled = _compiled(given, build)
    return build.model_copy(
        update={
            "engine": engine,
            "version": base.version or base.reference.rpartition("sha256:")[2][:12],
            "repository": given.repository or f"gb10/{engine}",
            "python": build.python if compiled else base.python,
            "cuda": "" if base.cuda == "none" else base.cuda,
            "requirements": given.requirements,
            "constraints": given.constraints,
            "overrides": (),
            "exclude_newer": None,
            "indexes": {},
            "commit_wheels": None,
            "tools": (),
            "sources": {build.wheels[name].source: _flashinfer(base) for name in compiled},
            "wheels": compiled,
            "patches": (),
            "layers": (),
            "env": given.env,
            "user": 0,
            "workdir": base.workdir or "/",
            "entrypoint": base.entrypoint,
            "command": base.command,
        }
    )


def _compiled(given: OnImage, build: Recipe) -> dict[str, WheelBuild]:
    """FlashInfer's kernels and ours, as ``build`` compiles them, of the sets that are asked for."""
    sets = {"aot": given.kernels, "extension": given.own_kernels}
    return {
        name: wheel.model_copy(update={"kernels": sets[wheel.method]})
        for name, wheel in build.wheels.items()
        if sets.get(wheel.method)
    }


def _flashinfer(base: BaseImage) -> Source:
    """The FlashInfer that the image holds."""
    return Source(sdist=f"{FLASHINFER}=={base.installed[FLASHINFER].version}")
