"""The plan: recipe + lock + options -> a frozen, sorted DAG of steps, each with a key. Pure.

A key covers everything that decides the bytes of a step's result: digests of the inputs, our scripts, and the text of
the Dockerfile that runs them, with ``BLANK`` in place of the key itself.
"""

from dataclasses import replace
from typing import Final

from gb10.core.files import digest
from gb10.errors import UsageError
from gb10.image.plan.compiles import BLANK, INSTALLER, NO_DAY, PATCHER, UNPACKER, wheel_step, with_headers
from gb10.image.plan.options import Options
from gb10.image.plan.render import program_dockerfile
from gb10.image.plan.steps import (
    RECIPES_OWN,
    applied,
    assign_to_layers,
    built_layer,
    finishers_of,
    graft_steps,
    image_and_proof,
    installers,
    layer_step,
    mod_steps,
    rehearsal_steps,
    rootfs,
    tools_step,
)
from gb10.image.plan.values import Plan, Program, Step, Toolkit, program_inputs
from gb10.image.recipe.image_recipe import Recipe
from gb10.image.recipe.locked import Lock


def plan_image(recipe: Recipe, lock: Lock, toolkit: Toolkit, options: Options) -> Plan:
    """The whole DAG of one image. Raises UsageError when recipe, lock and options contradict each other."""
    _check_cuda(recipe, options)
    recipe = with_headers(recipe, toolkit)
    bases = (
        rootfs("build", lock.debs.build[options.build], lock, toolkit),
        rootfs("image", lock.debs.image[options.target], lock, toolkit, user=True),
    )
    tools, own = tools_step(recipe, lock, toolkit, options.build, bases[0]), installers(recipe, lock, toolkit)
    draft = Plan(
        recipe=recipe,
        lock=lock,
        options=options,
        steps=(*bases, tools),
        key=BLANK,
        tags=_tags(recipe, options, BLANK),
        slim=applied(toolkit.slim, options, lock.wheels.image[options.target]),
    )
    wheels = tuple(wheel_step(name, draft, toolkit, tools) for name in sorted(recipe.built))
    projects = tuple(wheel for wheel in wheels if recipe.wheels[wheel.name].method in ("source", "library"))
    layers = tuple(
        layer_step(name, files, draft, toolkit, own) for name, files in assign_to_layers(recipe, lock, options).items()
    )
    layers += tuple(built_layer(wheel, toolkit, own) for wheel in wheels if wheel not in projects)
    grafts = graft_steps(draft, toolkit, layers, projects)
    draft = replace(draft, steps=(*draft.steps, *wheels, *layers, *grafts))
    below = (bases[1], *layers, *grafts)
    rehearsal = rehearsal_steps(draft, toolkit, tools, below)
    below, draft = (*below, *rehearsal[1:]), replace(draft, steps=(*draft.steps, *rehearsal))
    finishers = finishers_of(options)
    mods = mod_steps(draft, toolkit, below, finishers)
    draft = replace(draft, steps=(*draft.steps, *mods))
    image, proof = image_and_proof(draft, toolkit, (*below, *mods), finishers, "GPU code of every ELF")
    return replace(draft, steps=(*draft.steps, image, proof), key=image.key, tags=_tags(recipe, options, image.key))


def image_tag(recipe: Recipe, options: Options) -> str:
    """``<repository>:<version>-cu130-sm121f``, the tag that moves. A platform other than the arch's own is appended."""
    version = recipe.version.replace("+", "-")  # a tag may not hold "+"
    tag = f"{recipe.repository}:{version}-cu{recipe.cuda.replace('.', '')}-sm{options.arch.digits}"
    return tag if options.platform == options.arch.platform else f"{tag}-{options.target}"


def _tags(recipe: Recipe, options: Options, key: str) -> tuple[str, ...]:
    """The tags of an image; see ``Plan``."""
    moving = image_tag(recipe, options)
    unmoving = f"{moving}-{key[:12]}"
    chosen = options.overlay or options.mods or options.targets or options.kernels or options.refs or options.without
    chosen = chosen or options.unpatched
    own = chosen or options.slim != RECIPES_OWN or any(use.path for use in options.patches)
    return (unmoving,) if own else (moving, unmoving)


def _check_cuda(recipe: Recipe, options: Options) -> None:
    needed = options.arch.minimum_cuda
    if _version(recipe.cuda) < _version(needed):
        raise UsageError(
            f"arch {options.arch} needs CUDA {needed} or newer, the {recipe.engine} recipe pins {recipe.cuda}",
            hint="raise cuda in the recipe, and the CUDA wheels that it names with it",
        )


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


GEMM: Final = Program(
    name="gemm",
    source="flashinfer",
    units="benches/gemm",
    include=("units/moe",),
    headers=("nvidia-cuda-cccl", "nvidia-cuda-crt", "nvidia-cuda-runtime"),
)
# program.py judges units as extension.py does, which takes the compile cache's settings from compilers.py. markers.py
# reads by elf.py and fatbin.py, which decide no byte and are in no key.
SCRIPTS: Final = tuple(
    f"inside/compile/{name}.py" for name in ("compilers", "cuda_home", "extension", "launch", "markers", "program")
)


def plan_program(program: Program, image: Plan, toolkit: Toolkit) -> Plan:
    """The plan of one program: the compilers of an image's plan, and the patches of its CUTLASS."""
    if program.source not in image.recipe.sources:
        raise UsageError(
            f"the recipe {image.recipe.engine} has no source {program.source!r}, whose archive holds "
            f"the CUTLASS that {program.name} is compiled with",
            hint="name a recipe that has it: --engine",
        )
    project = image.recipe.project(program.source)
    patches = tuple(use for use in image.options.patches_of(project) if use.folder)
    compilers = (image.step("base-build"), image.step("tools"))
    draft = replace(
        image,
        steps=compilers,
        tags=(f"{program.name} for {image.options.arch}",),
        options=replace(image.options, patches=patches, overlay=None, mods=()),
    )
    step = _step(program, draft, toolkit)
    return replace(draft, steps=(*compilers, step), key=step.key)


def _step(program: Program, draft: Plan, toolkit: Toolkit) -> Step:
    """The step. As for wheels, the lock's date and the number of jobs are not part of the key."""
    lock, options = draft.lock, draft.options
    files = program_inputs(draft, program).files
    step = Step(
        name=program.name,
        kind="program",
        key=BLANK,
        needs=("tools",),
        files=files,
        about=f"{program.units} for {options.arch} on {options.platform}",
    )
    undated = replace(draft, key=BLANK, lock=lock.model_copy(update={"created": NO_DAY}))
    text = program_dockerfile(undated, program, step, toolkit.templates)
    own = toolkit.digests_of(program.units, *program.include, INSTALLER, *SCRIPTS, *UNPACKER)
    inputs = [[file.sha256 for file in some] for some in (files, *(one.files for one in draft.steps))]
    patched = [[[*use.inputs, use.folder] for use in options.patches], toolkit.digests_of(*PATCHER)]
    return replace(step, key=digest(["program", text, inputs, own, patched]))
