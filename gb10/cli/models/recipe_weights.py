"""The lock of pulled weights, and a recipe rendered at its commit."""

import os
import re
from dataclasses import replace
from typing import Final

from gb10.models.issue import errors_of
from gb10.models.load.model_recipe import ModelRecipe
from gb10.models.registries.recipe_file import RecipeFile
from gb10.models.render.rendered import RenderedRecipe, RenderRequest
from gb10.models.render.rendering import render_recipe
from gb10.models.render.sparkrun import VLLM_KIND
from gb10.serving.weights.model_lock import WeightsLock, lock_file, read_weights

ENGINES: Final = (*VLLM_KIND, "sglang")
"""Runtimes that take a commit by --revision."""
REVISION: Final = re.compile(r"(?<![\w-])--revision\b")
SERVED_NAME: Final = re.compile(r"(?<![\w-])--served-model-name\b")
"""vLLM takes the model's folder for its name when it is offline."""


def weights_of(file: RecipeFile) -> WeightsLock | None:
    """The lock of a recipe whose weights were pulled. Raises UsageError for one that cannot be read."""
    return read_weights(lock_file(os.environ, file))


def render_locked(recipe: ModelRecipe, request: RenderRequest, lock: WeightsLock | None) -> RenderedRecipe:
    """The recipe as it runs, at the commit that was pulled; another launcher's rules and another revision stay."""
    rendered = render_recipe(recipe, request)
    served = lock.models[0] if lock else None
    line = rendered.serve or ""
    if served is None or request.peer or request.lenient or errors_of(rendered.issues):
        return rendered
    if rendered.runtime not in ENGINES and recipe.format != "v1":
        return rendered
    if REVISION.search(line) or served.repo not in line:
        return rendered
    name = () if SERVED_NAME.search(line) or rendered.runtime == "sglang" else ("--served-model-name", served.repo)
    added = (*request.arguments, "--revision", served.revision, *name)
    return render_recipe(recipe, replace(request, arguments=added))
