"""Inputs of a compile: the locked archives with their patches, wheels and bases. Pure."""

from collections.abc import Iterable

from packaging.utils import canonicalize_name

from gb10.core.fields import Architecture, requirement_name
from gb10.core.files import Artifact, Checkout
from gb10.errors import UsageError
from gb10.image.plan.options import Options, PatchUse
from gb10.image.plan.values import Inputs, Origin, Plan, Program
from gb10.image.recipe.builds import WheelBuild
from gb10.image.recipe.image_recipe import Recipe
from gb10.image.recipe.locked import IndexFile, Lock, LockedCheckout, LockedWheel

CUTLASS_FOLDER = "3rdparty/cutlass"
"""Where an archive bundles it; a checkout is it."""


def wheel_inputs(plan: Plan, name: str) -> Inputs:
    """The inputs of one wheel. Raises UsageError when the lock lacks one of them."""
    recipe, lock, options, build = plan.recipe, plan.lock, plan.options, plan.recipe.wheels[name]
    origin = Origin(context="source", file=source_archive(build.source, recipe, lock), patches=patches_for(plan, build))
    wheels = {"target-wheels": artifacts(recipe, target_headers(build.headers, lock, options))}
    if build.cutlass is None:
        return Inputs(origins=(origin,), wheels=wheels, foreign=options.foreign)
    cutlass = Origin(
        context="cutlass", file=source_archive(build.cutlass_source, recipe, lock), patches=_of_cutlass(plan, build)
    )
    nested = (
        Origin(
            context=f"nested-{name}",
            file=source_archive(name, recipe, lock),
            nested=name,
            patches=options.patches_of(recipe.project(name)),
        )
        for name in build.handed_in
    )
    own = {requirement_name(tool) for tool in build.tools}
    tools = tuple(wheel for wheel in lock.wheels.tools[options.build] if canonicalize_name(wheel.name) in own)
    return Inputs(
        origins=(origin, cutlass, *nested),
        wheels=wheels,
        tools=artifacts(recipe, tools),
        bases=("base-build", "base-image"),
        foreign=options.foreign,
    )


def program_inputs(plan: Plan, program: Program) -> Inputs:
    """The inputs of a program. Its plan holds only the patches of CUTLASS."""
    archive = source_archive(program.source, plan.recipe, plan.lock)
    headers = artifacts(plan.recipe, target_headers(program.headers, plan.lock, plan.options))
    return Inputs(
        origins=(Origin(context="source", file=archive, patches=plan.options.patches),),
        wheels={"target-wheels": headers},
    )


def patches_for(plan: Plan, build: WheelBuild) -> tuple[PatchUse, ...]:
    """The patches of the source that a wheel is compiled from.

    CUTLASS in a folder of an archive is a source of its own: its patches move only the kernels that include it.
    For an engine's own project, only patches of compiled files count; the graft applies the others to the wheel.
    """
    if build.method == "extension":
        return _of_cutlass(plan, build)
    uses = plan.options.patches_of(plan.recipe.project(build.source))
    return tuple(use for use in uses if not use.folder and (use.compiled or build.method == "aot"))


def _of_cutlass(plan: Plan, build: WheelBuild) -> tuple[PatchUse, ...]:
    """The patches of the CUTLASS in a source, or of CUTLASS as the source."""
    uses = plan.options.patches_of(plan.recipe.project(build.cutlass_source))
    return tuple(use for use in uses if use.folder or plan.recipe.sources[build.cutlass_source].git)


def build_tools(recipe: Recipe, lock: Lock, build: Architecture) -> tuple[Artifact, ...]:
    """The wheels of all build stages, without those that only one wheel needs."""
    own = {requirement_name(tool) for wheel in recipe.wheels.values() for tool in wheel.tools}
    own -= {requirement_name(tool) for tool in recipe.tools}
    kept = (wheel for wheel in lock.wheels.tools[build] if canonicalize_name(wheel.name) not in own)
    return artifacts(recipe, kept)


def used_sources(recipe: Recipe, lock: Lock) -> Lock:
    """The lock with only the source archives that this build compiles."""
    projects = {recipe.project(name) for wheel in recipe.built.values() for name in wheel.sources}
    used = {name: file for name, file in lock.sdists.items() if name in projects}
    return lock.model_copy(update={"sdists": used})


def source_archive(source: str, recipe: Recipe, lock: Lock) -> Artifact:
    """The locked file of a source. Raises UsageError when the lock has none."""
    name, told = recipe.project(source), recipe.sources[source]
    if name not in lock.sdists:
        raise UsageError(f"the lock holds no source archive of {name}", hint="lock it: ./build.py lock --engine …")
    file = lock.sdists[name]
    if isinstance(file, LockedCheckout) and told.git:
        checkout = Checkout(told.git, told.pin, told.paths, file.commit, told.submodules)
        return Artifact(file.filename, file.sha256, file.size, checkout)
    return artifacts(recipe, (file,))[0]


def target_headers(names: Iterable[str], lock: Lock, options: Options) -> tuple[LockedWheel, ...]:
    """The image's wheels with the target's headers and libraries. Raises UsageError for a name that is not locked."""
    image = {wheel.name: wheel for wheel in lock.wheels.image[options.target]}
    unknown = [name for name in names if name not in image]
    if unknown:
        raise UsageError(
            f"headers from wheels that the image does not hold: {', '.join(unknown)}",
            hint="name wheels of the lock in the recipe's wheels section",
        )
    return tuple(image[name] for name in names)


def artifacts(recipe: Recipe, files: Iterable[IndexFile]) -> tuple[Artifact, ...]:
    """Files of the package index as artifacts; each with the index that the recipe names for its project."""
    own = recipe.index_of
    return tuple(Artifact(file.filename, file.sha256, file.size, index=own.get(file.name, "")) for file in files)
