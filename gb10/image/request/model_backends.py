"""Which kernels the engine would take for a model: ``explain`` answers, and where it cannot, that is said."""

from collections.abc import Mapping
from typing import Any, Final

from gb10.errors import FetchError, Gb10Error, LockStaleError, UsageError
from gb10.image.context import Context
from gb10.image.explain.asked_engine import ready_to_ask
from gb10.image.explain.engine_choice import refuse
from gb10.image.recipe.image_recipe import Recipe
from gb10.image.recipe.locked import Lock

ASKED: Final = ("attention_backend", "moe_backend", "linear_backend", "kv_cache_dtype", "block_size")
"""Options of the engine that decide which kernels it takes."""
WITHOUT_ANSWER: Final = (UsageError, LockStaleError, FetchError, Gb10Error)
"""Errors after which a plan goes on: explain, or the engine in it, gave no answer."""
MOST: Final = 300
"""Characters of an engine's words in a line."""


def chosen_kernels(
    ctx: Context, recipe: Recipe, lock: Lock, config: Mapping[str, Any], options: Mapping[str, str | int]
) -> frozenset[str] | None:
    """The names of the kernels that serve the model; None where explain cannot answer, with a line that says why.

    An index may lack PyTorch's build for the CPU, which explain runs: that is such a case. Raises VerifyError when the
    engine has no kernel for a layer, FetchError for every other failed download, PatchError.
    """
    asked = {name: str(value) for name, value in options.items() if name in ASKED}
    try:
        answer = ready_to_ask(ctx, recipe, lock).answer(ctx, config, asked)
        refuse(answer, f"{recipe.engine} {recipe.version}")
    except Gb10Error as error:
        if type(error) not in WITHOUT_ANSWER or (isinstance(error, FetchError) and not error.absent):
            raise
        ctx.reporter.say(f"kernels are chosen by the model's config alone: {error.message}{_reason(error)}")
        return None
    return frozenset(row.chosen for row in answer.rows if row.chosen)


def _reason(error: Gb10Error) -> str:
    """The first line of what the engine said."""
    said = (error.where or "").strip().splitlines()
    return f" ({said[0][:MOST]})" if said else ""
