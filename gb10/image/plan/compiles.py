"""Compile steps: one per wheel that is compiled. The key covers everything that decides a byte of the wheel. Pure."""

import datetime
import difflib
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from packaging.version import Version

from gb10.core.files import digest
from gb10.errors import UsageError
from gb10.image.plan.options import Options
from gb10.image.plan.render import wheel_dockerfile
from gb10.image.plan.values import Plan, Step, Toolkit, build_tools, on_each_machine, wheel_inputs
from gb10.image.recipe.image_recipe import PACKAGE_HEADERS, WHOLE, Recipe, WheelBuild
from gb10.image.recipe.kernel_sets import KernelSet, content, target_wheels

BLANK: Final = "0" * 64
NO_DAY: Final = datetime.date(1980, 1, 1)
BY_PROVIDERS: Final = "inside/compile/jit_cache.py"
IN_ONE_FOLDER: Final = "inside/compile/jit_cache_folder.py"
"""In place of the other, for a FlashInfer before 0.7."""
INSTALLER: Final = "inside/install/install.py"
PACKAGE_SCRIPTS: Final = (
    *(
        f"inside/compile/{name}"
        for name in (
            "build_python.py",
            "compilers.py",
            "cuda_home.py",
            "pack_package.py",
            "pack_wheel.py",
            "package.py",
            "package_backend.py",
            "package_compiler.py",
        )
    ),
    "inside/scan/binary.py",
    "inside/scan/linkage.py",
)
# The scripts of a compile stage, by method; a folder stands for every file below it, as in Toolkit.of. All take the
# compile cache's settings from compilers.py, and write their archive by pack_wheel.py.
COMPILE_SCRIPTS: Final[Mapping[str, tuple[str, ...]]] = {
    "aot": tuple(
        f"inside/compile/{name}"
        for name in (
            "aot.py",
            "compilers.py",
            "cuda_home.py",
            "jit_cache.py",
            "launch.py",
            "pack_wheel.py",
            "stub_torch",
        )
    ),
    "extension": tuple(
        f"inside/compile/{name}"
        for name in (
            "compilers.py",
            "cuda_home.py",
            "extension.py",
            "gb10_kernels.py",
            "launch.py",
            "pack_extension.py",
            "pack_wheel.py",
        )
    ),
    "source": tuple(
        f"inside/compile/{name}"
        for name in (
            "cmake_manifest.py",
            "cmake_nested.py",
            "cmake_targets.py",
            "compilers.py",
            "cuda_home.py",
            "extension.py",
            "launch.py",
            "pack_targets.py",
            "pack_wheel.py",
        )
    ),
    "package": PACKAGE_SCRIPTS,
    "library": (*PACKAGE_SCRIPTS, "inside/compile/library.py", "inside/compile/pack_targets.py"),
}
PATCHER: Final = tuple(
    f"patches/{name}.py" for name in ("added", "apply", "archives", "diff", "foreign", "graft", "places", "source_tree")
)
"""What writes a patched file. Which patches apply is decided elsewhere, and is in the key as their sha256."""
UNPACKER: Final = (
    *(f"rootfs/{name}.py" for name in ("configure", "database", "linker", "package", "root_tar", "unpack")),
    "sources/debian/stanza.py",
)
"""What writes a base."""


def wheel_step(name: str, draft: Plan, toolkit: Toolkit, tools: Step) -> Step:
    """A compiled wheel's step. The lock's date and the number of jobs are not part of the key."""
    lock, options, build = draft.lock, draft.options, draft.recipe.wheels[name]
    inputs = wheel_inputs(draft, name)
    _check_replaced(draft, build)
    needs = (tools.name, *(base for base in inputs.bases if base not in tools.needs))
    kernels = kernel_set(build, toolkit)
    _check_release(draft.recipe, build, kernels)
    step = Step(
        name=name,
        kind="wheel",
        key=BLANK,
        needs=needs,
        files=inputs.files,
        tools=inputs.tools,
        about=_about(build, options),
        kernels=kernels,
    )
    undated = replace(draft, lock=lock.model_copy(update={"created": NO_DAY}))
    _check_units(draft.recipe, build, toolkit)
    machines = [_compilers(machine, step, toolkit) for machine in on_each_machine(undated)]
    scripts = (INSTALLER, *compile_files(draft.recipe, build), *UNPACKER)
    own = [toolkit.digests_of(*scripts), content(kernels) if kernels else None]
    uses = [[*use.inputs, use.folder] for origin in inputs.origins for use in origin.patches]
    patched = [uses, toolkit.digests_of(*PATCHER)] if uses else []
    files = [file.sha256 for file in inputs.files]
    return replace(step, key=digest(["wheel", machines, files, own, *_python(draft, build), *patched]))


def _compilers(plan: Plan, step: Step, toolkit: Toolkit) -> list[object]:
    """What compiles a wheel on one kind of machine: the Dockerfile's text, Debian packages, wheels of tools."""
    build = plan.options.build
    tools = (*build_tools(plan.recipe, plan.lock, build), *wheel_inputs(plan, step.name).tools)
    text = wheel_dockerfile(plan, step, toolkit.templates)
    return [text, [deb.sha256 for deb in plan.lock.debs.build[build]], [file.sha256 for file in tools]]


def _about(build: WheelBuild, options: Options) -> str:
    compiled = f", compiled as {options.arch.kernels}" if options.arch.kernels != str(options.arch) else ""
    if build.method in WHOLE:
        return f"{build.method} {build.source} for {options.arch}, compiled as {options.arch.torch}"
    what = ", ".join(build.targets) if build.method == "source" else build.kernels
    return f"{build.method} {what} for {options.arch}{', as its CMake chooses' if build.targets else compiled}"


def _python(draft: Plan, build: WheelBuild) -> list[str]:
    """sha256 of the target's Python headers, the only part of the image's base that decides a byte of such a compile.

    A package's build reads Python's configuration, too, which comes from the same Debian source.
    """
    if build.method not in ("source", *WHOLE):
        return []
    name = f"libpython{draft.recipe.python}-dev"
    found = [deb.sha256 for deb in draft.lock.debs.image[draft.options.target] if deb.name == name]
    if not found:
        raise UsageError(
            f"the image has no {name}, whose headers {build.source} is compiled with",
            hint="add python3-dev to base.packages.image in the recipe",
        )
    return found


def compile_files(recipe: Recipe, build: WheelBuild) -> tuple[str, ...]:
    """The names of our files that the compile stage of a wheel reads, for ``Toolkit.of``."""
    units = (f"units/{build.kernels}",) if build.method == "extension" else ()
    names = (*COMPILE_SCRIPTS[build.method], *units)
    release = (recipe.sources[build.source].sdist or "").partition("==")[2] if build.method == "aot" else ""
    if not release or Version(release).release >= (0, 7):
        return names
    return tuple(IN_ONE_FOLDER if name == BY_PROVIDERS else name for name in names)


def stage_files(names: Mapping[str, object], contents: Mapping[str, bytes]) -> dict[str, bytes]:
    """Our files of a compile stage by their place in it: what becomes the package's ``__init__`` has one name there."""
    return {BY_PROVIDERS if name == IN_ONE_FOLDER else name: contents[name] for name in names}


def kernel_set(build: WheelBuild, toolkit: Toolkit) -> KernelSet | None:
    """The kernel set of a wheel, None for method ``source``. Raises UsageError when the set does not exist."""
    if build.kernels is None:
        return None
    owner = f"{set_owner(build)}-"
    known = [name.removeprefix(owner) for name in sorted(toolkit.kernel_sets) if name.startswith(owner)]
    if build.kernels not in known:
        close = difflib.get_close_matches(build.kernels, known, n=1)
        meant = f"did you mean {close[0]}? " if close else ""
        hint = f"{meant}known: {', '.join(known)}" if known else "write it: nothing is there yet"
        raise UsageError(
            f"the source {set_owner(build)} has no kernel set {build.kernels!r}",
            where=f"recipes/kernels/{owner}{build.kernels}.toml",
            hint=hint,
        )
    return toolkit.kernel_sets[owner + build.kernels]


def with_headers(recipe: Recipe, toolkit: Toolkit) -> Recipe:
    """The recipe, with the headers that kernel sets and packages need added to its wheels.

    Raises UsageError as ``kernel_set``.
    """
    wheels = dict(recipe.wheels)
    for name, build in recipe.built.items():
        own = build.headers or (PACKAGE_HEADERS if build.method in WHOLE else ())
        headers = dict.fromkeys((*own, *target_wheels(kernel_set(build, toolkit) or {})))
        wheels[name] = wheels[name].model_copy(update={"headers": tuple(headers)})
    return recipe.model_copy(update={"wheels": wheels})


def set_owner(build: WheelBuild) -> str:
    """The prefix of the set's file name: the source, or ``gb10`` for our own kernels."""
    return "gb10" if build.method == "extension" else build.source


def _check_release(recipe: Recipe, build: WheelBuild, kernels: KernelSet | None) -> None:
    """Raise UsageError when the set was not checked against this release: module names change between releases."""
    release = (recipe.sources[build.source].sdist or "").partition("==")[2]
    releases = (kernels or {}).get("flashinfer", [release])
    if release not in releases:
        raise UsageError(
            f"the kernel set {build.kernels} is for FlashInfer {', '.join(releases)}, not {release}",
            where=f"recipes/kernels/{set_owner(build)}-{build.kernels}.toml",
            hint="hold the set against that release, then add it there",
        )


def _check_replaced(draft: Plan, build: WheelBuild) -> None:
    """Raise UsageError when a library replaces files of a wheel that the image does not hold."""
    if build.replaces and build.replaces not in {wheel.name for wheel in draft.lock.wheels.image[draft.options.target]}:
        raise UsageError(
            f"{build.source} replaces files of {build.replaces}, and the image holds no such wheel",
            hint="name the project of one of the lock's wheels in replaces, and require it in the recipe",
        )


def _check_units(recipe: Recipe, build: WheelBuild, toolkit: Toolkit) -> None:
    if not all(toolkit.digests_of(name) for name in compile_files(recipe, build)):
        raise UsageError(
            f"the kernel set {build.kernels} has no units",
            where=f"kernels/{build.kernels}",
            hint="put its .cu and .cpp files there",
        )
