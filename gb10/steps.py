"""The steps of a plan: each with the key of its result, over everything that decides a byte of it. Pure."""

import datetime
import difflib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Final

from gb10.artifact import Artifact, Checkout
from gb10.digest import digest
from gb10.errors import UsageError
from gb10.machine import glibc, uv_platform
from gb10.model import Options, Plan, Step, Toolkit
from gb10.render import dockerfile, environment, patches_for, wheel_dockerfile
from gb10.schema import Layer, Lock, LockedCheckout, LockedDeb, LockedWheel, Recipe, WheelBuild

BLANK: Final = "0" * 64
NO_DAY: Final = datetime.date(1980, 1, 1)
USER_NAME: Final = "gb10"
USER_HOME: Final = "/home/gb10"
# What a compile stage finds in its /inside, by method; a folder stands for every file below it, as in Toolkit.of.
# extension.py takes the compile cache's settings from aot.py, pack_extension.py the archive from pack_wheel.py.
COMPILE_SCRIPTS: Final[Mapping[str, tuple[str, ...]]] = {
    "aot": tuple(f"inside/{name}" for name in (
        "aot.py", "cuda_home.py", "jit_cache.py", "launch.py", "pack_wheel.py", "stub_torch")),
    "extension": tuple(f"inside/{name}" for name in (
        "aot.py", "cuda_home.py", "extension.py", "gb10_kernels.py", "launch.py", "pack_extension.py",
        "pack_wheel.py")),
}  # fmt: skip
INSTALLER: Final = "inside/install.py"
SETTINGS: Final = "inside/settings.py"
MOD_RUNNER: Final = "inside/mod.py"
GRAFTER: Final = "inside/grafted.py"
PATCHER: Final = tuple(
    f"patches/{name}.py" for name in ("apply", "diff", "foreign", "graft", "parse", "places", "verdict")
)
UNPACKER: Final = tuple(
    f"debian/{name}.py"
    for name in (
        "accounts",
        "alternatives",
        "configure",
        "database",
        "linker",
        "package",
        "rootfs",
        "stanza",
        "tree",
    )
)


def rootfs(name: str, debs: tuple[LockedDeb, ...], lock: Lock, toolkit: Toolkit, *, user: int | None = None) -> Step:
    account = None if user is None else [user, USER_NAME, USER_HOME]
    return Step(
        name=f"base-{name}",
        kind="rootfs",
        key=digest(["rootfs", _shas(debs), account, lock.created.isoformat(), toolkit.of(*UNPACKER)]),
        files=tuple(Artifact(deb.filename, deb.sha256, deb.size) for deb in debs),
        about=f"{len(debs)} Debian packages",
    )  # fmt: skip


def tools_step(lock: Lock, toolkit: Toolkit, options: Options, base: Step) -> Step:
    files = lock.wheels.tools[options.build]
    return Step(
        name="tools",
        kind="tools",
        key=digest(["tools", base.key, _shas(files), toolkit.of(INSTALLER)]),
        needs=(base.name,),
        files=_artifacts(files),
        about=f"{len(files)} wheels for the build stages",
    )


def wheel_step(name: str, draft: Plan, toolkit: Toolkit, tools: Step) -> Step:
    """A compiled wheel. Neither the day of the lock nor the number of jobs decides a byte of it."""
    recipe, lock, options = draft.recipe, draft.lock, draft.options
    build = recipe.wheels[name]
    archive, headers = source_archive(build.source, recipe, lock), target_headers(build.headers, lock, options)
    compiled = f", compiled as {options.arch.kernels}" if options.arch.kernels != str(options.arch) else ""
    step = Step(name=name, kind="wheel", key=BLANK, needs=(tools.name,), files=(archive, *_artifacts(headers)),
                about=f"{build.method} {build.kernels} for {options.arch}{compiled}")  # fmt: skip
    undated = replace(draft, lock=lock.model_copy(update={"created": NO_DAY}))
    text = wheel_dockerfile(undated, step, toolkit.templates, jobs=0)
    compilers = [_shas(lock.debs.build[options.build]), _shas(lock.wheels.tools[options.build])]
    _check_kernels(build, toolkit)
    own = toolkit.of(kernel_file(build), INSTALLER, *compile_files(build), *UNPACKER)
    uses = [[use.sha256, use.folder] if use.folder else use.sha256 for use in patches_for(draft, step)]
    patched = [uses, toolkit.of(*PATCHER)] if uses else []
    return replace(step, key=digest(["wheel", text, archive.sha256, _shas(headers), compilers, own, *patched]))


def source_archive(source: str, recipe: Recipe, lock: Lock) -> Artifact:
    """The one file that brings a source; raises UsageError when the lock has none."""
    name, told = recipe.project(source), recipe.sources[source]
    if name not in lock.sdists:
        raise UsageError(f"the lock holds no source archive of {name}", hint="./build.py lock")
    file = lock.sdists[name]
    if isinstance(file, LockedCheckout) and told.git and told.tag:
        checkout = Checkout(told.git, told.tag, told.paths, file.commit)
        return Artifact(file.filename, file.sha256, file.size, checkout)
    return Artifact(file.filename, file.sha256, file.size)


def kernel_file(build: WheelBuild) -> str:
    """The kernel set of a wheel, as the catalog and the toolkit name the file."""
    return f"kernels/{_owner(build)}-{build.kernels}.toml"


def compile_files(build: WheelBuild) -> tuple[str, ...]:
    """What the compile stage of a wheel reads of ours beside the kernel set, as Toolkit.of takes it."""
    units = (f"units/{build.kernels}",) if build.method == "extension" else ()
    return (*COMPILE_SCRIPTS[build.method], *units)


def _owner(build: WheelBuild) -> str:
    """Whose kernels they are: a source's, or ours."""
    return "gb10" if build.method == "extension" else build.source


def _check_kernels(build: WheelBuild, toolkit: Toolkit) -> None:
    prefix, suffix = f"kernels/{_owner(build)}-", ".toml"
    known = [file.removeprefix(prefix).removesuffix(suffix) for file in sorted(toolkit.of("kernels"))
             if file.startswith(prefix)]  # fmt: skip
    if build.kernels not in known:
        closest = difflib.get_close_matches(build.kernels, known, n=1, cutoff=0.0)
        hint = f"known: {', '.join(known)}; closest is {closest[0]}" if closest else "write it: nothing is there yet"
        raise UsageError(f"the source {_owner(build)} has no kernel set {build.kernels!r}",
                         where=f"recipes/{kernel_file(build)}", hint=hint)  # fmt: skip
    if not all(toolkit.of(name) for name in compile_files(build)):
        raise UsageError(f"the kernel set {build.kernels} has no units", where=f"kernels/{build.kernels}",
                         hint="put its .cu and .cpp files there")  # fmt: skip


def target_headers(names: Iterable[str], lock: Lock, options: Options) -> tuple[LockedWheel, ...]:
    """The image's own wheels that a compile reads the target's headers and libraries from; raises UsageError."""
    image = {wheel.name: wheel for wheel in lock.wheels.image[options.target]}
    unknown = [name for name in names if name not in image]
    if unknown:
        raise UsageError(f"headers from wheels that the image does not hold: {', '.join(unknown)}",
                         hint="name wheels of the lock in the recipe's wheels section")  # fmt: skip
    return tuple(image[name] for name in names)


def layer_step(name: str, wheels: tuple[LockedWheel, ...], draft: Plan, toolkit: Toolkit, tools: Step) -> Step:
    recipe = draft.recipe
    platform = [recipe.python, uv_platform(draft.options.target, glibc(recipe.base.suite))]
    return Step(
        name=f"layer-{name}",
        kind="layer",
        key=digest(["layer", tools.key, _shas(wheels), platform, toolkit.of(INSTALLER)]),
        needs=(tools.name,),
        files=_artifacts(wheels),
        about=f"{len(wheels)} wheels",
    )


def built_layer(wheel: Step, toolkit: Toolkit, tools: Step) -> Step:
    return Step(
        name=f"layer-{wheel.name}",
        kind="layer",
        key=digest(["layer", tools.key, wheel.key, toolkit.of(INSTALLER)]),
        needs=(tools.name, wheel.name),
        about="the wheel built here",
    )


def graft_steps(draft: Plan, toolkit: Toolkit, layers: tuple[Step, ...]) -> tuple[Step, ...]:
    """A step per locked wheel that has patches: the patched wheel, and the layer of what differs from upstream's."""
    image = {wheel.name: wheel for wheel in draft.lock.wheels.image[draft.options.target]}
    made = []
    for project in dict.fromkeys(use.project for use in draft.options.patches):
        uses = [use for use in draft.options.patches_of(project) if use.installable]
        if project not in image or not uses:
            continue
        files = _artifacts((image[project],))
        below = next(step for step in layers if files[0] in step.files)
        own = toolkit.of(GRAFTER, *PATCHER)
        made.append(Step(
            name=f"graft-{project}", kind="graft", needs=(below.name,), files=files, project=project,
            key=digest(["graft", below.key, files[0].sha256, [use.sha256 for use in uses], own]),
            about=", ".join(use.name.removesuffix(".patch") for use in uses),
        ))  # fmt: skip
    return tuple(made)


def mod_steps(draft: Plan, toolkit: Toolkit, below: tuple[Step, ...]) -> tuple[Step, ...]:
    """A step per mod, each on the one before it: a change moves its own key and those above."""
    options, made = draft.options, list[Step]()
    overlay = options.overlay.digest if options.overlay else None
    under = digest([[step.key for step in below], toolkit.of(SETTINGS), overlay, environment(draft)])
    for number, mod in enumerate(options.mods, 1):
        under = digest(["mod", under, mod.name, mod.digest, mod.network, draft.recipe.workdir, toolkit.of(MOD_RUNNER)])
        needs = (made[-1].name,) if made else tuple(step.name for step in below)
        network = ", with the network" if mod.network else ""
        made.append(Step(name=f"mod-{number}", kind="mod", key=under, needs=needs, about=f"{mod.label}{network}"))
    return tuple(made)


def image_step(draft: Plan, toolkit: Toolkit, needs: tuple[Step, ...]) -> Step:
    """The image: its Dockerfile, and the record of the plan that lies in it, with the keys of all other steps."""
    recipe, options = draft.recipe, draft.options
    overlay = options.overlay.digest if options.overlay else None
    own = toolkit.of(SETTINGS, *([MOD_RUNNER] if options.mods else []))
    return Step(
        name="image",
        kind="image",
        key=digest(["image", dockerfile(draft, toolkit.templates), draft.record(), own, overlay]),
        needs=tuple(step.name for step in needs),
        about=f"{recipe.engine} {recipe.version} {options.platform}",
    )


def churn(recipe: Recipe, lock: Lock, options: Options) -> dict[str, tuple[LockedWheel, ...]]:
    """Each locked wheel in the first layer that matches its name, else in the one that takes the rest."""
    classes: dict[str, list[LockedWheel]] = {layer.name: [] for layer in recipe.layers}
    for wheel in sorted(lock.wheels.image[options.target], key=lambda wheel: wheel.name):
        classes[_class_of(wheel.name, recipe.layers)].append(wheel)
    empty = [name for name, wheels in classes.items() if not wheels]
    if empty:
        raise UsageError(f"layers without a wheel: {', '.join(empty)}", hint="remove them from the recipe's layers")
    return {name: tuple(wheels) for name, wheels in classes.items()}


def _class_of(name: str, layers: Iterable[Layer]) -> str:
    rest = None
    for layer in layers:
        if any(fnmatchcase(name, pattern) for pattern in layer.packages):
            return layer.name
        rest = layer.name if layer.rest else rest
    if rest is None:
        raise UsageError(
            f"no layer takes {name}", hint="name it in one of the recipe's layers, or add rest: true to one"
        )
    return rest


def _shas(files: Iterable[LockedDeb | LockedWheel]) -> list[str]:
    return [file.sha256 for file in files]


def _artifacts(files: Iterable[LockedWheel]) -> tuple[Artifact, ...]:
    return tuple(Artifact(file.filename, file.sha256, file.size) for file in files)
