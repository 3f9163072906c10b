"""What a maintainer does after an upgrade, before an image can be built."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from gb10.errors import Gb10Error
from gb10.image.context import Context, build_architecture
from gb10.image.plan.dag import plan_image
from gb10.image.plan.options import Options
from gb10.image.recipe.arch import parse_arch
from gb10.image.recipe.image_recipe import Recipe
from gb10.image.recipe.locked import Lock
from gb10.image.upgrade.outcomes import Checked
from gb10.models.lint.engine_source import ENGINES
from gb10.models.lint.engine_words import known_words
from gb10.patches.releases import PINS, Release
from gb10.patches.selection import plan_patches

ARCH: Final = "12.1f"
"""The arch whose plan is tried."""


def steps_of(ctx: Context, recipe: Recipe, lock: Lock, checked: Checked) -> Iterator[str]:
    """One sentence for each."""
    for patch in checked.patches:
        if patch.remedy:
            yield f"patches/{patch.source}/{patch.patch} on {patch.release}, {patch.after}: {patch.remedy}"
    yield from checked.unknown
    yield from (
        f"pin {source} {version} in patches/{PINS}: {_pin(str(version), release)}"
        for source, version, release in checked.unpinned
    )
    yield from _of_plan(ctx, recipe, lock)
    if recipe.engine in ENGINES and known_words(recipe.engine, recipe.version) is None:
        known = "python3 -m bootstrap scripts/engine_flags.py WHEEL"
        yield f"`recipe lint` does not know {recipe.engine} {recipe.version}: {known}"


def _pin(version: str, release: Release) -> str:
    """A line of the pins."""
    fields = {"filename": release.filename, "sha256": release.sha256, "size": release.size}
    return f"{json.dumps(version)}: {json.dumps(fields)}"


def _of_plan(ctx: Context, recipe: Recipe, lock: Lock) -> Iterator[str]:
    """Why there is no plan of the new lock yet, if so."""
    arch = parse_arch(ARCH)
    options = Options(arch=arch, platform=arch.platform, build=build_architecture())
    try:
        patches = plan_patches(ctx.catalog.patches, recipe, lock, options.target, ())
        plan_image(recipe, lock, ctx.catalog.toolkit, replace(options, patches=patches))
    except Gb10Error as error:
        yield f"plan stops: {error.message}" + (f" ({error.hint})" if error.hint else "")
