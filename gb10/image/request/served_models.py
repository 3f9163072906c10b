"""The model of ``--for-model``: its config, the engine's options, and whether the engine can rehearse with it."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from gb10.errors import UsageError
from gb10.image.context import Context
from gb10.image.plan.options import Options, Served
from gb10.image.plan.rehearsing import why_none
from gb10.image.plan.values import Toolkit
from gb10.image.recipe.image_recipe import Recipe
from gb10.image.request.kernel_choice import read_config, short_name
from gb10.image.request.model_backends import ASKED

NUMBERS: Final = ("block_size", "max_model_len", "max_num_batched_tokens", "max_num_seqs")
"""Options of the engine that bound its batches and blocks, as whole numbers."""
LARGEST: Final = 1 << 24


def served_model(ctx: Context, model: str | None, served_with: Sequence[str]) -> Served | None:
    """The model with its config, and the options that it is served with. Raises UsageError, FetchError."""
    pairs = [_option(text) for text in served_with]
    options = dict(pairs)
    if len(options) != len(pairs):
        raise UsageError("--served-with names an option twice", hint=f"given: {', '.join(served_with)}")
    if model is None:
        if options:
            raise UsageError("--served-with needs a model", hint="name one: --for-model OWNER/NAME")
        return None
    config = json.dumps(read_config(ctx, model), sort_keys=True)
    return Served(name=short_name(model), config=config, options=tuple(sorted(options.items())))


def rehearsed(ctx: Context, recipe: Recipe, toolkit: Toolkit, options: Options, served: Served | None) -> Served | None:
    """The model, if a rehearsal with it is possible; why it is not is printed. Raises UsageError."""
    if served is None:
        return None
    why = why_none(recipe, toolkit, options)
    if why:
        ctx.reporter.say(f"kernels of Triton, CuTe DSL and the engine's own compiler are not made ahead: {why}")
        return None
    known = toolkit.rehearsals[recipe.engine].arguments
    absent = [name for name, _ in served.options if name not in known]
    if absent:
        hint = f"it has {', '.join(known)}"
        raise UsageError(f"{recipe.engine} has no option for {absent[0]}", hint=hint)
    return replace(served, environment=tuple(sorted(toolkit.rehearsals[recipe.engine].image.items())))


def _option(text: str) -> tuple[str, str | int]:
    """``NAME=VALUE`` as an option of the engine. Raises UsageError for one that is not known."""
    name, mark, value = text.replace("-", "_", text.partition("=")[0].count("-")).partition("=")
    known = tuple(dict.fromkeys((*ASKED, *NUMBERS)))
    if not mark or name not in known or not value:
        raise UsageError(
            f"--served-with {text[:80]!r} is no option that changes kernels", hint=f"known: {', '.join(known)}"
        )
    if name not in NUMBERS:
        if not value.replace("_", "").replace("-", "").isalnum() or len(value) > 40:
            raise UsageError(f"--served-with {text[:80]!r}: the value is not a word")
        return name, value
    if not re.fullmatch(r"[0-9]{1,9}", value) or not 0 < int(value) <= LARGEST:
        raise UsageError(f"--served-with {text[:80]!r}: the value is not a whole number up to {LARGEST}")
    return name, int(value)
