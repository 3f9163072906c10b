"""Rendering: a plan becomes Dockerfile text, bake JSON, labels and environment. Pure."""

import calendar
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, Literal, TypedDict, Unpack

from jinja2 import DictLoader, Environment, StrictUndefined

from gb10.core.machine import MACHINES, glibc, uv_platform
from gb10.image.plan.plan_record import labels
from gb10.image.plan.values import CUTLASS_FOLDER, Plan, Program, Step, program_inputs, wheel_inputs
from gb10.image.recipe.arch import Arch, parse_arch
from gb10.image.recipe.base_image import BaseImage
from gb10.image.recipe.image_recipe import WHOLE, WheelBuild

NEWLINE = "GB10_NEWLINE"
PLAIN = re.compile(r"[A-Za-z0-9_./:@%+=,-]+")


def quoted(value: str) -> str:
    """In double quotes, where only the backslash, the quote and the dollar mean something."""
    escaped = re.sub(r'([\\"$])', r"\\\1", value)
    return '"' + escaped.replace("\n", f"${{{NEWLINE}}}") + '"'


def word(value: str) -> str:
    """As it is where nothing in it is special, else quoted."""
    return value if PLAIN.fullmatch(value) else quoted(value)


def shell(value: str) -> str:
    """As one word of a shell."""
    return f'"${NEWLINE}"'.join(shlex.quote(line) for line in value.split("\n"))


def array(values: Sequence[str]) -> str:
    """The exec form, which is JSON: nothing in it is expanded."""
    return json.dumps(list(values))


@lru_cache(maxsize=4)
def jinja(templates: tuple[tuple[str, str], ...]) -> Environment:
    """Compiled templates, kept by their texts: compiling them takes most of the time of a plan."""
    made = Environment(
        loader=DictLoader(dict(templates)), undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False
    )
    made.filters |= {"quoted": quoted, "word": word, "shell": shell, "json": array}
    return made


# 1980-01-01, in seconds: our wheels have one date, so that a new lock of the same files keeps their keys.
OLDEST_ZIP = 315_532_800


def dockerfile(plan: Plan, templates: Mapping[str, str]) -> str:
    """The image's Dockerfile."""
    recipe, options = plan.recipe, plan.options
    if plan.base:
        return _on_image(plan, plan.base, templates)
    return _render(
        templates,
        "image.Dockerfile.j2",
        plan,
        platform=options.platform,
        layers=[step.name for step in plan.of_kind("layer")],
        built=[step.name for step in plan.of_kind("layer") if not step.files],
        slimmed=_slimmed(plan),
        grafts=[step.name for step in plan.of_kind("graft")],
        overlay=bool(options.overlay),
        caches=[step.name for step in plan.of_kind("cache")],
        machine=MACHINES[options.target],
        by_hand=options.by_hand,
        site=f"/usr/local/lib/python{recipe.python}/dist-packages",
        mods=list(zip((step.name for step in plan.of_kind("mod")), options.mods, strict=True)),
        scanned=scanned(plan),
        changed=changed(plan),
        search=dict(environment(plan)).get("LD_LIBRARY_PATH", ""),
        env=environment(plan),
        labels=sorted(labels(plan).items()),
        user=recipe.user,
        workdir=recipe.workdir,
        entrypoint=recipe.entrypoint,
        command=recipe.command,
        newline=NEWLINE if NEWLINE in build_args(plan) else "",
    )


def _on_image(plan: Plan, base: BaseImage, templates: Mapping[str, str]) -> str:
    return _render(
        templates,
        "on_image.Dockerfile.j2",
        plan,
        platform=base.platform,
        reference=base.reference,
        placed=placing_stages(plan),
        mods=list(zip((step.name for step in plan.of_kind("mod")), plan.options.mods, strict=True)),
        scanned=scanned(plan),
        env=environment(plan),
        labels=sorted(labels(plan).items()),
        user=base.user or "root",
        workdir=plan.recipe.workdir,
        interpreter=base.interpreter,
        newline=NEWLINE if NEWLINE in build_args(plan) else "",
    )


def placing_stages(plan: Plan) -> list[str]:
    """The stages of files that are laid over an image of others, lowest first."""
    steps = (*plan.of_kind("added"), *plan.of_kind("patched"))
    return [*(step.name for step in steps), *(["overlay"] if plan.options.overlay else [])]


def part_dockerfile(
    plan: Plan, part: Literal["base", "differ", "layer", "scan", "tools"], templates: Mapping[str, str], **values: str
) -> str:
    """The Dockerfile of a build beside the image's own: it makes a ``base`` an image, adds a ``layer`` of upstream's to
    one and scans it, makes a ``scan`` of an image of the engine, says where two of them ``differ``, or has the stage
    ``tools`` alone.

    ``values`` are the template's own: ``base``; ``layer``; ``reference``; ``before``, ``after``. ``platform`` is that
    of the image in question, left out the plan's.
    """
    own = {"platform": plan.options.platform, **values}
    return _render(templates, f"{part}.Dockerfile.j2", plan, slimmed=_slimmed(plan), **own)


def _slimmed(plan: Plan) -> list[str]:
    return [step.name for step in plan.of_kind("layer") if step.slim]


def scanned(plan: Plan) -> list[str]:
    """The stages whose files are the image's layers, lowest first; the plan's record above them is no program.

    Of an image on an image of others these are ours alone.
    """
    if plan.base:
        return [*placing_stages(plan), *(step.name for step in plan.of_kind("mod"))]
    return [
        "base",
        *(step.name for step in plan.of_kind("layer")),
        *(step.name for step in plan.of_kind("graft")),
        "settings",
        *(["overlay"] if plan.options.overlay else []),
        *(step.name for step in plan.of_kind("cache")),
        *(step.name for step in plan.of_kind("mod")),
    ]


def changed(plan: Plan) -> list[str]:
    """The stages whose files were changed on purpose: patched, or laid over the image."""
    return [*(step.name for step in plan.of_kind("graft")), *(["overlay"] if plan.options.overlay else [])]


class Compilers(TypedDict, total=False):
    """How a stage compiles. In no key: it is over the text without.

    ``jobs`` in words of the stage's shell. The compile cache is ``shared`` with other builders, or of its own for what
    is ``by_hand``, which may read the ``reviewed`` one.
    """

    jobs: str
    shared: bool
    by_hand: bool
    reviewed: bool


ALONE: Final = Compilers(jobs="", shared=False, by_hand=False, reviewed=False)


TEMPLATES: Final = {"source": "targets.Dockerfile.j2", **dict.fromkeys(WHOLE, "package.Dockerfile.j2")}
"""By method, where it is not the one of kernels."""


def wheel_dockerfile(plan: Plan, step: Step, templates: Mapping[str, str], **compilers: Unpack[Compilers]) -> str:
    """The Dockerfile that compiles one wheel."""
    arch, build = plan.options.arch, plan.recipe.wheels[step.name]
    return _render(
        templates,
        TEMPLATES.get(build.method, "wheel.Dockerfile.j2"),
        plan,
        step=step,
        wheel=build,
        oldest_zip=OLDEST_ZIP,
        python=plan.recipe.python,
        **{**ALONE, **compilers},
        arch=arch,
        compiled=parse_arch(arch.torch if build.method in WHOLE else arch.kernels),
        machine=MACHINES[plan.options.target],
        glibc=glibc(plan.recipe.base.suite),
        origins=wheel_inputs(plan, step.name).origins,
        cutlass=_cutlass(plan, build),
        version=_version(plan, build),
    )


def _version(plan: Plan, build: WheelBuild) -> str:
    """The version of what replaces files of a wheel: the engine's, or the library's own."""
    if build.method != "library":
        return plan.recipe.version
    source = plan.recipe.sources[build.source]
    return (source.pinned or "").partition("==")[2] or source.version


def _cutlass(plan: Plan, build: WheelBuild) -> str:
    """Below the archive that brings it: the folder that bundles it, or nothing when the archive is it."""
    return "" if plan.recipe.sources[build.cutlass_source].git else f"/{CUTLASS_FOLDER}"


def program_dockerfile(
    plan: Plan, program: Program, step: Step, templates: Mapping[str, str], **compilers: Unpack[Compilers]
) -> str:
    """The Dockerfile that compiles a program, and runs what the build machine can check of it."""
    return _render(
        templates,
        "program.Dockerfile.j2",
        plan,
        step=step,
        program=program,
        python=plan.recipe.python,
        **{**ALONE, **compilers},
        arch=plan.options.arch,
        compiled=parse_arch(plan.options.arch.kernels),
        machine=MACHINES[plan.options.target],
        origins=program_inputs(plan, program).origins,
        cutlass=CUTLASS_FOLDER,
        native=plan.options.build == plan.options.target,
    )


def trial_dockerfile(plan: Plan, templates: Mapping[str, str]) -> str:
    """The Dockerfile that runs somebody's commands on what is laid over an image of others, and records the changes.

    To the image's own it adds the stages ``trial`` and ``result``.
    """
    machine = MACHINES[plan.options.build]
    loader = {"arm64": "ld-linux-aarch64.so.1", "amd64": "ld-linux-x86-64.so.2"}[plan.options.build]
    values = {"machine": machine, "loader": loader, "workdir": plan.recipe.workdir}
    return f"{dockerfile(plan, templates)}\n{_render(templates, 'trial.Dockerfile.j2', plan, **values)}"


def _render(templates: Mapping[str, str], name: str, plan: Plan, **values: object) -> str:
    return (
        jinja(tuple(templates.items()))
        .get_template(name)
        .render(
            title=plan.tags[0],
            key12=plan.key[:12],
            build=plan.options.build,
            uv_platform=uv_platform(plan.options.target, glibc(plan.recipe.base.suite)),
            epoch=epoch(plan),
            cc=compiler(plan, "gcc"),
            cxx=compiler(plan, "g++"),
            **values,
        )
    )


def compiler(plan: Plan, name: str) -> str:
    """The build platform's compiler for the image's machine: the plain one, or the cross one."""
    if plan.options.build == plan.options.target:
        return name
    return f"{MACHINES[plan.options.target]}-linux-gnu-{name}"


def epoch(plan: Plan) -> int:
    """SOURCE_DATE_EPOCH in seconds: midnight UTC of the day the lock was made."""
    return calendar.timegm(plan.lock.created.timetuple())


def build_args(plan: Plan) -> dict[str, str]:
    """What buildx is given with the image's Dockerfile: the config's own times, and a newline where a value has one."""
    values = (plan.recipe.workdir, *dict(environment(plan)).values(), *labels(plan).values())
    newline = {NEWLINE: "\n"} if any("\n" in value for value in values) else {}
    return {"SOURCE_DATE_EPOCH": str(epoch(plan)), **newline}


def environment(plan: Plan) -> list[tuple[str, str]]:
    """The image's environment: the recipe's, and what the arch decides."""
    if plan.base:  # what it compiles for is the base's own choice
        return sorted(plan.recipe.env.items())
    arch: Arch = plan.options.arch
    derived = {"TORCH_CUDA_ARCH_LIST": arch.torch, "FLASHINFER_CUDA_ARCH_LIST": arch.flashinfer}
    if plan.options.served:
        derived |= dict(plan.options.served.environment)
    return sorted({**derived, **plan.recipe.env}.items())


def bake(plan: Plan) -> dict[str, object]:
    """The plan as a docker-bake.json document, for the directory that ``image --context DIR`` leaves."""
    contexts = {
        f"{step.name}-wheels": f"contexts/{step.name}-wheels"
        for step in (*plan.of_kind("layer"), *plan.of_kind("rehearsal"), *plan.of_kind("tools"))
    }
    if plan.options.overlay:
        contexts["overlay-files"] = "contexts/overlay-files"
    changed = (*plan.of_kind("added"), *plan.of_kind("patched"), *plan.of_kind("graft"), *plan.of_kind("mod"))
    contexts |= {f"{step.name}-files": f"contexts/{step.name}-files" for step in changed}
    target: dict[str, object] = {
        "context": "main",
        "dockerfile": "Dockerfile",
        "contexts": contexts,
        "args": build_args(plan),
    }
    if any(mod.network for mod in plan.options.mods):
        target["network"] = "default"
    return {
        "group": {"default": {"targets": ["image"]}},
        "target": {
            "proof": {**target, "target": "proof", "output": ["type=local,dest=proof"]},
            "image": {**target, "target": "image", "platforms": [plan.options.platform], "tags": [plan.tags[-1]]},
        },
    }
