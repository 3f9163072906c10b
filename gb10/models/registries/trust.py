"""Trust: what a recipe of somebody else may do is shown, and the user allows it before anything of it runs."""

from collections.abc import Sequence

from gb10.errors import UsageError
from gb10.models.load.model_recipe import ModelRecipe
from gb10.models.recipe_privileges import Power, mod_powers, powers_of
from gb10.models.registries.recipe_file import RecipeFile, registries
from gb10.models.render.rendered import RenderedRecipe

MOST = 40
"""Powers that an error lists."""
UNUSED = " (not by gb10)"


def mods_here(recipe: ModelRecipe, file: RecipeFile, mods: Sequence[str]) -> tuple[Power, ...]:
    """What these mods of a recipe may do that the user has not allowed: they are of registries without trust."""
    if file.trusted:
        named = [mod for mod in mods if mod.startswith("@")]
        doubted = {one.name for one in registries() if not one.trusted} if named else set()
        mods = [mod for mod in named if mod[1:].partition("/")[0] in doubted]
    return tuple(mod_powers(recipe, mods))


def powers_here(
    recipe: ModelRecipe,
    file: RecipeFile,
    mods: Sequence[str],
    rendered: RenderedRecipe | None = None,
    *,
    chosen_image: bool = False,
) -> tuple[Power, ...]:
    """What a recipe may do that the user has not allowed: nothing for ours and the user's own.

    ``mods`` are those of its mods that run from a folder of somebody else; ``rendered`` is what runs. ``chosen_image``:
    the image is the user's choice.
    """
    if not file.trusted:
        return powers_of(recipe, mods, rendered, chosen_image=chosen_image)
    return mods_here(recipe, file, mods)


def lines_of_powers(recipe: ModelRecipe, powers: tuple[Power, ...]) -> list[str]:
    """``FILE:LINE: TEXT``, one for each; what gb10 itself does not do is said so."""
    more = [f"and {len(powers) - MOST} more"] if len(powers) > MOST else []
    shown = (f"{recipe.file}:{power.line}: {power.text}{'' if power.used else UNUSED}" for power in powers[:MOST])
    return [*shown, *more]


def require_trust(recipe: ModelRecipe, file: RecipeFile, powers: tuple[Power, ...], *, trust: bool) -> None:
    """Raise UsageError for what the user has not allowed, with every part of it."""
    if not powers or trust:
        return
    name = f"@{file.registry.name}" if file.registry else file.shown
    raise UsageError(
        f"{file.shown} does more than start an engine, and {name} is not trusted",
        where="\n".join(lines_of_powers(recipe, powers)),
        hint="read it, then add --trust; ./build.py recipe add --trust allows it for a registry's present pin",
    )
