"""The image that `run` starts: that of the command line, else the one that `image --recipe` made, else the recipe's."""

from gb10.core.reporter import Reporter
from gb10.errors import UsageError
from gb10.image.context import Context
from gb10.models.load.model_recipe import ModelRecipe
from gb10.models.needs.image_need import image_need
from gb10.serving.run.notes import key_of, made_image


def image_made(ctx: Context, recipe: ModelRecipe, image: str | None) -> str | None:
    """The image in place of the recipe's, if there is one. Raises UsageError for a note that is broken."""
    if image:
        return image
    try:
        key = key_of(image_need(recipe))
    except UsageError:
        return None  # gb10 builds no image for it
    made = made_image(ctx.env, key)
    if made and made != recipe.container:
        _say(ctx.reporter, recipe, made)
    return made


def _say(reporter: Reporter, recipe: ModelRecipe, made: str) -> None:
    other = f"; --image {recipe.container} runs the one that it names" if recipe.container else ""
    reporter.say(f"{recipe.name}: it runs {made}, which image --recipe made{other}")
