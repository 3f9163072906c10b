"""The survey: which steps are cache hits, and what the others need. It starts and changes nothing."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final

from gb10.containers.connection import Engine
from gb10.containers.reach import look
from gb10.core.store import Store
from gb10.image.build.built import IN_ENGINE, engine_room, is_built
from gb10.image.build.estimate import Needs, needs
from gb10.image.context import Context
from gb10.image.plan.values import PLACES, Plan, Step
from gb10.image.proof.scans import known

STORED: Final = PLACES.keys() - {"proof"}
"""Kinds of steps with a result in the store, not in an engine."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CacheStatus:
    """The running engine, whether each step is a cache hit (by name), and what the others need."""

    engine: Engine | None
    there: Mapping[str, bool]
    needs: Needs


def survey(ctx: Context, plan: Plan, rebuild: Collection[str] = ()) -> CacheStatus:
    """What is cached, before any work. ``rebuild`` names steps that are made again. Raises EngineError."""
    running = look(ctx.env, ctx.store)
    engine = replace(running, builder=ctx.builder) if running else None
    there = _presence(ctx.store, plan, rebuild, engine)
    return CacheStatus(engine=engine, there=there, needs=needs(ctx, plan, there, engine))


def survey_again(ctx: Context, plan: Plan, rebuild: Collection[str]) -> CacheStatus:
    """The survey of a run that makes everything again but compiled wheels that are in the store."""
    found = survey(ctx, plan, rebuild)
    there = {step.name: found.there[step.name] and step.kind == "wheel" for step in plan.steps}
    return replace(found, there=there, needs=needs(ctx, plan, there, found.engine))


def _presence(store: Store, plan: Plan, rebuild: Collection[str], engine: Engine | None) -> Mapping[str, bool]:
    """Step name -> whether it is a cache hit. Rebuilt steps, and steps that depend on them, are not."""
    image = engine is not None and bool(plan.of_kind("image")) and known(store, engine, plan) is not None
    room = engine_room(engine) if engine else None
    there: dict[str, bool] = {}
    for step in plan.steps:
        stands = all(there[need] for need in step.needs) or step.kind in STORED
        again = step.name in rebuild or (step.kind == "graft" and any(need in rebuild for need in step.needs))
        there[step.name] = not again and stands and (image or _stored(store, step, room))
    return there


def _stored(store: Store, step: Step, room: str | None) -> bool:
    if step.kind in STORED:
        return store.entry(PLACES[step.kind], step.key).exists()
    return step.kind in IN_ENGINE and is_built(store, room, step)
