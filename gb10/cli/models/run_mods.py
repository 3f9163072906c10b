"""The mods of a model recipe for `run`: those that an image needs, by the labels that gb10 gave it."""

from gb10.cli.models.recipe_mods import MODS, Release, foreign_mods, mods_of
from gb10.cli.models.recipe_trust import mods_here, require_trust
from gb10.containers.images import ImageInfo
from gb10.core.reporter import Reporter
from gb10.errors import UsageError
from gb10.image.mods.read import FoundMod, find_mod
from gb10.models.load.model_recipe import ModelRecipe
from gb10.models.registries.recipe_file import RecipeFile

TITLE = "org.opencontainers.image.title"
VERSION = "org.opencontainers.image.version"
KEY = "io.github.gb10.plan.key"


def mods_to_run(
    reporter: Reporter, recipe: ModelRecipe, file: RecipeFile, image: ImageInfo, *, trust: bool
) -> list[FoundMod]:
    """The recipe's mods, in order; what the release of an image of ours does not need is left out, with its reason.

    Raises UsageError for a mod that is neither ours nor beside the recipe, and for one of somebody else, without trust.
    """
    release = _release(image)
    require_trust(recipe, file, mods_here(recipe, file, foreign_mods(recipe, file, release)), trust=trust)
    found = []
    for mod in mods_of(recipe, file):
        reason = mod.is_left_out(release)
        if reason:
            reporter.say(f"the mod {mod.name} is left out: {reason}")
        elif mod.ours or mod.beside:
            if mod.replaced:
                reporter.say(mod.replaced)
            found.append(find_mod(MODS, mod.ours or f"{mod.beside}/"))
        else:
            hint = "put its folder beside the recipe, or remove it"
            raise UsageError(f"the mod {mod.written[:80]!r} is neither beside the recipe nor one of ours", hint=hint)
    return found


def _release(image: ImageInfo) -> Release:
    """Engine and release of an image of ours; empty for others, which use the same labels for other things."""
    labels = image.labels
    if KEY not in labels:
        return Release()
    return Release(engine=labels.get(TITLE, "").partition(" ")[0], version=labels.get(VERSION, ""))
