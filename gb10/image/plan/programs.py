"""Programs: benchmark programs, compiled by the compilers of an image's lock. Pure."""

from dataclasses import replace
from typing import Final

from gb10.core.files import digest
from gb10.errors import UsageError
from gb10.image.plan.compiles import BLANK, INSTALLER, NO_DAY, PATCHER, UNPACKER
from gb10.image.plan.inputs import program_inputs
from gb10.image.plan.render import program_dockerfile
from gb10.image.plan.values import Plan, Program, Step, Toolkit

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
    f"inside/{name}.py" for name in ("compilers", "cuda_home", "extension", "launch", "markers", "program")
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
    own = toolkit.of(program.units, *program.include, INSTALLER, *SCRIPTS, *UNPACKER)
    inputs = [[file.sha256 for file in some] for some in (files, *(one.files for one in draft.steps))]
    patched = [[[*use.inputs, use.folder] for use in options.patches], toolkit.of(*PATCHER)]
    return replace(step, key=digest(["program", text, inputs, own, patched]))
