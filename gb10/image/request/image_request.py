"""What a user asks of an image, as written."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gb10.image.recipe.slim_rules import Extent


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """The user's options, as written."""

    engine: str
    arch: str
    platform: str | None = None
    overlay: Path | None = None
    patches: tuple[str, ...] = ()
    without_patches: tuple[str, ...] = ()
    """Patches of ours that the build does not get, as SOURCE/NNNN."""
    sources: tuple[str, ...] = ()
    """``NAME=DIR`` or ``NAME=git:URL@COMMIT``: checkouts with changes to build."""
    refs: Mapping[str, str] = field(default_factory=dict)
    """Releases that replace the recipe's, by source; ``git:URL@COMMIT`` is a checkout of the locked release."""
    mods: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    """CMake targets of the engine's own project; empty means the recipe's."""
    kernels: str | None = None
    """A kernel set instead of the recipe's."""
    model: str | None = None
    """A model that chooses the kernels instead of the recipe: a folder, a config.json, or a name on the hub."""
    served_with: tuple[str, ...] = ()
    """``NAME=VALUE``: options of the engine that the model is served with."""
    without: tuple[str, ...] = ()
    """Optional layers that the image does not get."""
    mod_network: bool = False
    """Whether mods from outside the checkout get the network, if they declare it or have no mod.yaml."""
    slim: Extent = "publishable"
    """Which rules of recipes/slim.yaml the image applies."""
    serves: str | None = None
    """The need of a model recipe for which the image is made. It is in no key."""
    base: str | None = None
    """An image of others to build on (``--from``), instead of a recipe's Debian packages and wheels."""
    named_engine: bool = False
    """Whether the user named the engine."""
