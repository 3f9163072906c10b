"""Layers in an engine: how they come there, and which it has: a mark per layer key, under the engine's identity."""

from typing import Final

from gb10.containers.connection import Engine
from gb10.containers.engine_host import engine_id
from gb10.core.store import Store
from gb10.image.context import Context
from gb10.image.plan.values import Kind, Plan, Step

IN_ENGINE: Final[tuple[Kind, ...]] = ("tools", "layer", "rehearsal", "cache", "mod")
"""Kinds of steps with a result in the engine alone."""


def remember_built(store: Store, engine: Engine, plan: Plan) -> None:
    """Mark the layers and tools of a plan that was just built."""
    room = engine_room(engine)
    for step in plan.steps:
        if step.kind not in IN_ENGINE:
            continue
        store.write_text(store.entry(room, step.key), step.name)


def engine_room(engine: Engine) -> str:
    """The store's folder for the marks of an engine or a builder. An engine gets a new id when its data are wiped."""
    if engine.builder:
        return f"built/builder-{engine.builder}"
    return f"built/{engine_id(engine)}"


def is_built(store: Store, room: str | None, step: Step) -> bool:
    """Whether the engine of that folder built this layer. False when no engine runs."""
    return room is not None and store.entry(room, step.key).exists()


def one_by_one(ctx: Context, engine: Engine | None) -> bool:
    """Whether layers are built one by one: the classic image store shares them with BuildKit. Caches are of one solve.

    A builder, and containerd's store, copy an image's layers instead. Without an engine the embedded one is meant.
    """
    copied = engine is not None and (engine.builder is not None or engine.containerd)
    return not (copied or ctx.cache_from or ctx.cache_to)
