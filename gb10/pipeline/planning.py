"""Planning: read recipe and lock, refuse a stale lock, plan, and look up which results are already there."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from gb10.arch import parse_arch
from gb10.catalog import tree_digest
from gb10.engine.find import look
from gb10.errors import UsageError
from gb10.lock import check_lock, load_lock, load_recipe, lock_path
from gb10.pipeline.built import engine_room, is_built
from gb10.pipeline.proof import known
from gb10.pipeline.workshop import Workshop, build_architecture
from gb10.plan import Options, Overlay, Plan, Step, plan_image


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """What the user asked for, as written."""

    engine: str
    arch: str
    platform: str | None = None
    overlay: Path | None = None


def make_plan(shop: Workshop, request: Request) -> Plan:
    """The plan of a request; raises UsageError for a bad recipe or arch, LockStaleError for a stale lock."""
    arch = parse_arch(request.arch)
    path = shop.catalog.recipe(request.engine)
    recipe = load_recipe(path)
    lock = load_lock(lock_path(path))
    check_lock(recipe, lock)
    options = Options(arch=arch, platform=request.platform or arch.platform, build=build_architecture(),
                      overlay=_overlay(request.overlay))  # fmt: skip
    return plan_image(recipe, lock, shop.catalog.toolkit, options)


def _overlay(path: Path | None) -> Overlay | None:
    if path is None:
        return None
    if not path.is_dir():
        raise UsageError(
            f"the overlay {path} is not a directory", hint="give a directory that mirrors the image's root"
        )
    return Overlay(path=str(path.absolute()), digest=tree_digest(path))


def presence(shop: Workshop, plan: Plan, rebuild: Collection[str]) -> Mapping[str, bool]:
    """Step name -> whether its result is already there; what is rebuilt, or stands on it, is not. Starts no engine."""
    engine = look(shop.env, shop.store)
    image = engine is not None and bool(plan.of_kind("image")) and known(shop, engine, plan) is not None
    room = engine_room(engine) if engine else None
    there: dict[str, bool] = {}
    for step in plan.steps:
        stands = all(there[need] for need in step.needs) or step.kind in ("rootfs", "wheel")
        there[step.name] = step.name not in rebuild and stands and (image or _stored(shop, step, room))
    return there


def _stored(shop: Workshop, step: Step, room: str | None) -> bool:
    if step.kind in ("rootfs", "wheel"):
        return shop.store.entry(f"{step.kind}s", step.key).exists()
    return step.kind in ("tools", "layer") and is_built(shop, room, step)
