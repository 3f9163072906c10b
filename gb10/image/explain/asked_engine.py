"""The engine of an image recipe answers for a model: its locked files, patched as in the image."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gb10.core.fields import Architecture
from gb10.core.files import digest
from gb10.errors import UsageError
from gb10.image.context import Context
from gb10.image.explain.engine_choice import Held, ask_engine
from gb10.image.explain.engine_files import EngineFacts, Packages, Parts, Patching, engine_files, read_facts
from gb10.image.explain.layer_rows import Answer
from gb10.image.recipe.image_recipe import Recipe
from gb10.image.recipe.locked import Lock, LockedWheel
from gb10.patches.patched import patched_files
from gb10.patches.selection import plan_patches

TARGET: Final = "arm64"
OWN: Final = "gb10-kernels"
"""The package of kernels of our own: a patched engine asks for it."""
ARCH: Final = "12.1f"
"""What it is compiled for where no image says it."""
TWINS: Final[Mapping[str, Architecture]] = {"x86_64": "amd64", "aarch64": "arm64"}
"""The platform of the packages of this machine, by its name in the lock of packages."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AskedEngine:
    """An engine that can be asked: what is known of its release, and its files."""

    facts: EngineFacts
    files: Path
    held: Held

    def answer(self, ctx: Context, config: Mapping[str, Any], options: Mapping[str, str]) -> Answer:
        """The engine's choice for every layer of a config. Raises UsageError, Gb10Error when there is no answer."""
        with ctx.reporter.task(f"the engine's release {self.facts.engine} chooses"):
            return ask_engine(ctx, self.facts, self.files, config, options, held=self.held)


def ready_to_ask(ctx: Context, recipe: Recipe, lock: Lock) -> AskedEngine:
    """The engine of a recipe, its files unpacked once. Raises UsageError, LockStaleError, FetchError, PatchError."""
    facts, packages = read_facts(ctx.catalog.root, recipe.engine)
    wheels = image_wheels(recipe, lock, facts)
    twins = tuple(wheel for wheel in lock.wheels.image[TWINS[packages.machine]] if wheel.name in facts.twins)
    parts = Parts(
        whole=(*packages.wheels, *twins), image=wheels, sources=facts.sources, modules=tuple(facts.registered)
    )
    held = Held(kernels=ARCH if OWN in recipe.wheels else "")
    return AskedEngine(facts=facts, files=_files(ctx, recipe, lock, parts, packages), held=held)


def image_wheels(recipe: Recipe, lock: Lock, facts: EngineFacts) -> tuple[LockedWheel, ...]:
    """The locked wheels whose Python is run, but for those that the image leaves out.

    Raises UsageError when the lock has another release than the facts.
    """
    wheels = {wheel.name: wheel for wheel in lock.wheels.image[TARGET]}
    found = wheels[facts.from_image[0]]
    if found.version != facts.engine:
        raise UsageError(
            f"explain knows {recipe.engine} {facts.engine}, the lock has {found.version}",
            hint="recipes/explain has the facts of one release; docs/explain.md says how to renew them",
        )
    return tuple(wheels[name] for name in facts.from_image if name in wheels)


def _files(ctx: Context, recipe: Recipe, lock: Lock, parts: Parts, packages: Packages) -> Path:
    uses = [use for use in plan_patches(ctx.catalog.patches, recipe, lock, TARGET, ()) if use.installable]
    own = [use for use in uses if use.project == parts.image[0].name]
    patching = Patching(
        key=digest([use.inputs for use in own]),
        files=lambda wheel: patched_files(ctx.catalog.patches, wheel, own, ctx.reporter.detail),
    )
    return engine_files(ctx, packages, parts, patching if own else None)
