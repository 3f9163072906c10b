"""A recipe on an image of others: what a person adds to it. What the image holds decides the rest."""

from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints

from gb10.core.fields import Model, Name, Requirements, Variable
from gb10.image.recipe.base_image import BaseImage
from gb10.image.recipe.image_recipe import Recipe

Repository = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+([._/-][a-z0-9]+)*$")]
Reference = Annotated[str, StringConstraints(pattern=r"^[^\s@]+(@sha256:[0-9a-f]{64})?$", max_length=500)]
Text = Annotated[str, StringConstraints(min_length=1, max_length=1000)]
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
    """Diffs, by their paths beside the recipe; laid over the image before those of the command line."""
    mods: tuple[Text, ...] = ()
    """Mods, by name or by their paths beside the recipe; baked before those of the command line."""


def derived(given: OnImage, base: BaseImage, build: Recipe) -> Recipe:
    """The recipe that a plan reads: ``given`` and what the image holds. Build stages have the Debian of ``build``.

    An image without Python or torch gives no version of either: these fields are empty then. Pure.
    """
    engine = base.engine or NO_ENGINE
    return build.model_copy(
        update={
            "engine": engine,
            "version": base.version or base.reference.rpartition("sha256:")[2][:12],
            "repository": given.repository or f"gb10/{engine}",
            "python": base.python,
            "cuda": "" if base.cuda == "none" else base.cuda,
            "requirements": given.requirements,
            "constraints": given.constraints,
            "overrides": (),
            "exclude_newer": None,
            "indexes": {},
            "commit_wheels": None,
            "tools": (),
            "sources": {},
            "wheels": {},
            "patches": (),
            "layers": (),
            "env": given.env,
            "user": 0,
            "workdir": base.workdir or "/",
            "entrypoint": base.entrypoint,
            "command": base.command,
        }
    )
