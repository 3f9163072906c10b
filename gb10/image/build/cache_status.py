"""What is known before a build: cached steps, what the others need, inputs that cannot fit. Nothing is started."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from gb10.containers.connection import Engine
from gb10.containers.reach import connect_if_running
from gb10.errors import UncheckedError, UsageError
from gb10.image.build.estimate import Needs, needs
from gb10.image.build.kept_by_engine import IN_ENGINE, engine_folder
from gb10.image.context import Context
from gb10.image.plan.values import PLACES, Plan, Step, torch_problem

if TYPE_CHECKING:
    from gb10.image.proof.scans import Record

OURS: Final = "kernels"
"""How --rebuild names the wheels of our own kernels."""
STORED: Final = PLACES.keys() - {"proof"}
"""Kinds of steps with a result in the store, not in an engine."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CacheStatus:
    """What is cached, before any work."""

    engine: Engine | None
    """The running one."""
    cached: Mapping[str, bool]
    """Whether each step is a cache hit, by name."""
    needs: Needs
    """Of the other steps."""
    image: "Record | None" = None
    """The verified image that the engine has."""


def check_cache(ctx: Context, plan: Plan, rebuild: Collection[str] = ()) -> CacheStatus:
    """What is cached, before any work. Steps of ``rebuild``, and those that depend on them, are not.

    Starts and changes nothing. Raises EngineError.
    """
    running = connect_if_running(ctx.env, ctx.store)
    engine = replace(running, builder=ctx.builder) if running else None
    image = None
    if engine and plan.of_kind("image"):
        from gb10.image.proof.scans import find_verified_image  # noqa: PLC0415 - for an engine that runs

        image = find_verified_image(ctx.store, engine, plan)
    section = engine_folder(engine) if engine else None
    cached: dict[str, bool] = {}

    def stored(step: Step) -> bool:
        if step.kind == "base":
            from gb10.containers.images import find_image  # noqa: PLC0415 - for an image of others

            return bool(engine and plan.base and find_image(engine, plan.base.reference))
        if step.kind in STORED:
            return ctx.store.entry(PLACES[step.kind], step.key).exists()
        return step.kind in IN_ENGINE and section is not None and ctx.store.entry(section, step.key).exists()

    for step in plan.steps:
        stands = all(cached[need] for need in step.needs) or step.kind in STORED
        again = step.name in rebuild or (step.kind == "graft" and any(need in rebuild for need in step.needs))
        cached[step.name] = not again and stands and (image is not None or stored(step))
    return CacheStatus(engine=engine, cached=cached, needs=needs(ctx, plan, cached, engine), image=image)


def try_inputs(ctx: Context, plan: Plan) -> UncheckedError | None:
    """Try patches on what they change, and the names of CMake targets on what the store has: for ``--dry-run``.

    A wheel or archive that patches change is fetched. Returns the error to raise after the plan is shown when one
    cannot be fetched. Raises PatchError, UsageError.
    """
    targets = any(plan.recipe.wheels[step.name].targets for step in plan.of_kind("wheel"))
    if not (plan.base or targets or any(use.path for use in plan.options.patches)):
        return None
    from gb10.image.build.input_checks import try_patches, try_sources, try_targets  # noqa: PLC0415 - few plans try any

    unchecked = list[str]()
    if plan.base:
        from gb10.image.build.base_build import try_patched  # noqa: PLC0415 - for an image of others

        unchecked += try_patched(ctx, plan)
    unchecked += (*try_patches(ctx, plan), *try_sources(ctx, plan))
    try_targets(ctx, plan)
    if not unchecked:
        return None
    return UncheckedError(
        "patches are not checked: what they change cannot be fetched",
        where="\n".join(unchecked),
        hint="run the command again with a network, or with a mirror: PIP_INDEX_URL",
    )


def check_torch(ctx: Context, plan: Plan) -> None:
    """Raise UsageError when torch is not built with the recipe's CUDA. If that is unknown, print a note."""
    problem, torch = torch_problem(plan), plan.torch
    if problem:
        raise problem
    if torch and torch.cuda is None:
        ctx.reporter.say(f"torch {torch.version}: the lock does not name its CUDA version; not checked")


def selected(plan: Plan, names: Collection[str]) -> frozenset[str]:
    """The wheel steps that ``--rebuild NAME`` names, by wheel, by source, or as our own kernels.

    Raises UsageError for a name that stands for none.
    """
    builds = {step.name: plan.recipe.wheels[step.name] for step in plan.of_kind("wheel")}
    # sources that are compiled only with --targets
    idle = {wheel.source for one, wheel in plan.recipe.wheels.items() if one not in plan.recipe.built}
    names_of = {
        wheel: {wheel, OURS if build.method == "extension" else build.source} for wheel, build in builds.items()
    }
    for name in names:
        if not any(name in own for own in names_of.values()):
            listed = ", ".join(sorted(set().union(*names_of.values())))
            raise UsageError(
                f"--rebuild {name}: the recipe builds no wheel from {name}",
                hint=f"valid: {listed or 'none'}{f'; {name}, too, when --targets names some' if name in idle else ''}",
            )
    return frozenset(wheel for wheel, own in names_of.items() if own & {*names})
