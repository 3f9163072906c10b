"""What an engine keeps of a build: which steps, where the store marks them, and how layers get there."""

from typing import Final

from gb10.containers.connection import Engine, engine_id
from gb10.image.context import Context
from gb10.image.plan.values import Kind

IN_ENGINE: Final[tuple[Kind, ...]] = ("tools", "layer", "rehearsal", "cache", "mod")
"""Kinds of steps with a result in the engine alone."""


def engine_folder(engine: Engine) -> str:
    """The store's folder for the marks of an engine or a builder. An engine gets a new id when its data are wiped."""
    if engine.builder:
        return f"built/builder-{engine.builder}"
    return f"built/{engine_id(engine)}"


def one_by_one(ctx: Context, engine: Engine | None) -> bool:
    """Whether layers are built one by one: the classic image store shares them with BuildKit. Caches are of one solve.

    A builder, and containerd's store, copy an image's layers instead. Without an engine the embedded one is meant.
    """
    copied = engine is not None and (engine.builder is not None or engine.containerd)
    return not (copied or ctx.cache_from or ctx.cache_to)
