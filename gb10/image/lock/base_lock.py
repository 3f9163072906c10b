"""Locks of images on an image of others: the image as it was read, and the wheels that are added to it.

What the image holds does not move: its distributions are given to the resolver as the only releases that there are.
"""

import re
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from packaging.version import InvalidVersion, Version

from gb10.containers.reach import connect_if_running
from gb10.core.fields import Architecture, requirement_name
from gb10.core.files import digest
from gb10.errors import LockStaleError, UsageError
from gb10.image.base.base_reading import inspect_base
from gb10.image.base.base_sources import FORMAT, locked_flashinfer, locked_torch
from gb10.image.context import Context
from gb10.image.lock.lockfile import load_lock, load_recipe, lock_path
from gb10.image.lock.relock import BASE, added_wheels, main_index
from gb10.image.lock.resolver import Platform, Resolver, platform_of
from gb10.image.plan.base_plan import lock_on, requested_base
from gb10.image.plan.catalog import DEFAULT_ENGINE
from gb10.image.recipe.base_image import BaseImage
from gb10.image.recipe.image_recipe import Recipe
from gb10.image.recipe.kernel_sets import target_wheels
from gb10.image.recipe.locked import Lock, LockedWheel
from gb10.image.recipe.on_image import OnImage, derived

NEWEST_GLIBC: Final = 40
"""The N of the newest manylinux_2_N that uv knows."""
PROJECT: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,98}[a-z0-9])?", re.ASCII)
NAME: Final = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
PAIR: Final = re.compile(rf"(?<![\w.=<>~!-])({NAME})([<>=!~]\S*)?\s+depends\s+on\s+({NAME})([<>=!~]\S*[^\s,.])?")
"""As uv writes it: who requires, in which releases, what, and which releases of that."""


def build_inputs(ctx: Context) -> tuple[Recipe, Lock]:
    """Recipe and lock that give the build stages their Debian packages: the checkout's own."""
    path = ctx.catalog.recipe(DEFAULT_ENGINE)
    return load_recipe(path), load_lock(lock_path(path))


def on_image_digest(given: OnImage) -> str:
    """Digest of the fields that decide the lock; a patch or a variable is not among them. Pure."""
    return digest(
        {
            "image": given.base.image,
            "platform": given.platform,
            "python": given.base.python,
            "engine": given.engine,
            "requirements": sorted(given.requirements),
            "constraints": sorted(given.constraints),
            **({"kernels": FORMAT, "own-kernels": bool(given.own_kernels)} if given.compiles else {}),
        }
    )


def read_base(ctx: Context, given: OnImage, platform: str, reference: str = "") -> BaseImage:
    """The image that a recipe builds on, as it is now, or as it is by ``reference``. Raises as ``inspect_base``."""
    engine = connect_if_running(ctx.env, ctx.store)
    python, serving = given.base.python, given.engine or ""
    return inspect_base(ctx, reference or given.base.image, platform, engine=engine, python=python, serving=serving)


def lock_in_memory(ctx: Context, given: OnImage, platform: str) -> Lock:
    """The lock of what ``--from`` names, for a platform: a tag is resolved now. Raises as ``inspect_base``."""
    base = read_base(ctx, given, platform)
    return lock_on(base, build_inputs(ctx)[1], on_image_digest(given), asked=requested_base(given))


TORCH_HEADER: Final = re.compile(rb"^#include <(torch/[\w./-]+)>", re.MULTILINE)
TVM_FFI: Final = "apache-tvm-ffi"
"""Whose headers FlashInfer's kernels are compiled with, and which loads them: the image's release is taken."""


def with_kernel_inputs(ctx: Context, lock: Lock, given: OnImage, old: Lock | None = None) -> Lock:
    """The lock with what kernels are compiled from: the sources that the image holds, CUDA's headers of the compiler's
    release, for our own kernels the image's torch, and the tools of the build stages.

    Raises UsageError for an image whose CUDA is older than the compiler or not known, FetchError, as ``inspect_base``.
    """
    base, (build, ours) = lock.base, build_inputs(ctx)
    if base is None:
        raise ValueError("kernels for an image need a lock that holds one")
    source = locked_flashinfer(ctx, base)
    _check_cuda(base, build)
    target: Architecture = "arm64" if base.platform == "linux/arm64" else "amd64"
    names = {name for wheel in build.wheels.values() if wheel.method == "aot" for name in wheel.headers}
    names |= {name for kernels in ctx.catalog.toolkit.kernel_sets.values() for name in target_wheels(kernels)}
    headers = tuple(wheel for wheel in ours.wheels.image[target] if wheel.name in names)
    torch = (locked_torch(ctx, base, _torch_headers(ctx, given.own_kernels)),) if given.own_kernels else ()
    tools = _tools(ctx, base, build, ours, old)
    return lock.model_copy(
        update={
            "sdists": {source.name: source},
            "headers": (*headers, *torch),
            "wheels": lock.wheels.model_copy(update={"tools": tools}),
        }
    )


def _torch_headers(ctx: Context, kernels: str) -> tuple[str, ...]:
    """The headers of torch that the units of a set of ours include."""
    units = (text for name, text in ctx.catalog.contents.items() if name.startswith(f"units/{kernels}/"))
    return tuple(sorted({found.decode() for text in units for found in TORCH_HEADER.findall(text)}))


def _check_cuda(base: BaseImage, build: Recipe) -> None:
    """Raise UsageError when what gb10's compiler makes is for another CUDA than the image's."""
    wanted = [int(part) for part in build.cuda.split(".")]
    found = [int(part) for part in base.cuda.split(".")] if base.cuda not in ("", "none") else []
    if not found or found[0] != wanted[0] or found < wanted:
        what = f"CUDA {base.cuda}" if found else "no CUDA that could be read"
        raise UsageError(
            f"kernels are compiled by CUDA {build.cuda}, and the torch of {base.reference} has {what}",
            hint=f"build on an image with CUDA {build.cuda} or a later {wanted[0]}.x, or leave out --kernels",
        )


def _tools(
    ctx: Context, base: BaseImage, build: Recipe, given: Lock, old: Lock | None
) -> dict[Architecture, tuple[LockedWheel, ...]]:
    """The tools of the build stages, on each building machine, with the image's release of tvm-ffi."""
    held = base.installed.get(TVM_FFI)
    if held is None:
        raise UsageError(
            f"{base.reference} holds no {TVM_FFI}, which loads FlashInfer's kernels", hint="leave out --kernels"
        )
    own = {requirement_name(text) for text in build.tools}
    found = dict[Architecture, tuple[LockedWheel, ...]]()
    for name, wheels in given.wheels.tools.items():
        kept = (*wheels, *(old.wheels.tools[name] if old else ()))
        one = next((one for one in kept if (one.name, one.version) == (TVM_FFI, held.version)), None)
        made = (one,) if one else _tool(ctx, build, f"{TVM_FFI}=={held.version}", name)
        found[name] = (*(wheel for wheel in wheels if wheel.name in own and wheel.name != TVM_FFI), *made)
    return {name: tuple(sorted(wheels, key=lambda one: one.name)) for name, wheels in found.items()}


def _tool(ctx: Context, build: Recipe, requirement: str, architecture: Architecture) -> tuple[LockedWheel, ...]:
    """One wheel of the index for a building machine. Raises UsageError, FetchError."""
    index = main_index(ctx.env)
    resolver = Resolver(ctx.store, ctx.env, index.url, build)
    platform = platform_of(build.base.suite, build.python, architecture)
    return added_wheels(index.session, resolver.resolve((requirement,), platform, {}, "--no-deps"))


def check_on_image(given: OnImage, lock: Lock, path: Path) -> None:
    """Raise LockStaleError when the recipe in ``path`` changed since it was locked."""
    if lock.base is None or lock.input_digest != on_image_digest(given):
        raise LockStaleError(
            f"the recipe {path.name} changed since it was locked on {lock.created}",
            where=f"locked from {lock.input_digest}\nrecipe is   {on_image_digest(given)}",
            hint=f"./build.py lock --engine {path}",
        )


def lock_on_image(ctx: Context, given: OnImage, path: Path, upgrade: tuple[str, ...] = ()) -> Lock:
    """The lock of a recipe on an image of others. A tag keeps its digest unless ``upgrade`` names ``base``.

    Raises UsageError when a wheel does not fit what the image holds, FetchError, and as ``inspect_base``.
    """
    old = _old(path)
    kept = locked_base(given, old) if old and BASE not in upgrade else ""
    if isinstance(kept, BaseImage):
        base = kept
    else:
        base = read_base(ctx, given, given.platform, kept)
        if given.base.image != base.reference:
            ctx.reporter.say(f"{given.base.image} is {base.reference}")
    build_recipe, build = build_inputs(ctx)
    plain = derived(given.without_kernels(), base, build_recipe)
    wheels = _added(ctx, plain, base, old, upgrade) if given.requirements else ()
    made = lock_on(base, build, on_image_digest(given), wheels, requested_base(given))
    return with_kernel_inputs(ctx, made, given, old) if given.compiles else made


def locked_base(given: OnImage, old: Lock) -> BaseImage | str:
    """The image of a lock, if the recipe asks what it asked then; else the reference that is read. Pure.

    Where only the Python or the engine is another one, the image keeps its digest. Empty: what the recipe names.
    """
    if old.base is None or old.asked is None or old.base.platform != given.platform:
        return ""
    asked = requested_base(given)
    if asked == old.asked:
        return old.base
    return old.base.reference if asked.image == old.asked.image else ""


def _old(path: Path) -> Lock | None:
    return load_lock(lock_path(path)) if lock_path(path).exists() else None


def _added(
    ctx: Context, recipe: Recipe, base: BaseImage, old: Lock | None, upgrade: tuple[str, ...]
) -> tuple[LockedWheel, ...]:
    """The wheels that the requirements add. Raises UsageError for what would move a distribution of the image."""
    if not base.python:
        raise UsageError(f"{base.reference} holds no Python: no wheel can be added", hint="leave out requirements")
    architecture: Architecture = "arm64" if base.platform == "linux/arm64" else "amd64"
    minor = int(base.glibc.partition(".")[2] or 0)
    if not minor:
        raise UsageError(
            f"{base.reference} has no glibc that could be read: no wheel is known to fit", hint="leave out requirements"
        )
    platform = Platform(python=base.python, architecture=architecture, glibc=min(minor, NEWEST_GLIBC))
    present = present_in(base)
    constraints = (*recipe.constraints, *(f"{name}=={version}" for name, version in sorted(present.items())))
    index = main_index(ctx.env)
    resolver = Resolver(ctx.store, ctx.env, index.url, recipe.model_copy(update={"constraints": constraints}))
    pins = {wheel.name: wheel.version for wheel in old.wheels.image[architecture]} if old else {}
    pins = {name: version for name, version in pins.items() if name not in upgrade} | present
    with ctx.store.folder("present") as folder:
        write_stand_ins(folder, present)
        try:
            found = resolver.resolve(
                recipe.requirements, platform, pins, "--find-links", str(folder), present=present.keys()
            )
        except UsageError as error:
            raise misfit(error, base, recipe.requirements) from error
    return added_wheels(index.session, found)


def present_in(base: BaseImage) -> dict[str, str]:
    """The distributions that do not move, and their versions; one that no index could have is nobody's requirement."""
    return {
        name: one.version
        for name, one in base.installed.items()
        if PROJECT.fullmatch(name) and _is_version(one.version)
    }


def _is_version(text: str) -> bool:
    try:
        Version(text)
    except InvalidVersion:
        return False
    return True


def write_stand_ins(folder: Path, present: Mapping[str, str]) -> None:
    """A wheel without content for each distribution of an image: an index need not have its release (+cu130)."""
    for name, version in present.items():
        flat = name.replace("-", "_")
        info = f"{flat}-{version}.dist-info"
        with zipfile.ZipFile(folder / f"{flat}-{version}-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/RECORD", "")


def misfit(error: UsageError, base: BaseImage, requirements: Iterable[str]) -> UsageError:
    """The resolver's error with the pair that does not fit: what is to be added, and what the image holds. Pure."""
    text = "\n".join((error.message, *getattr(error, "__notes__", ())))
    for of, releases, name, wanted in PAIR.findall(text):
        project = requirement_name(name)
        if wanted and project in base.installed and requirement_name(of) not in base.installed:
            return UsageError(
                f"{of} does not fit {_held(base, project)}",
                where=f"{of}{releases} requires {name}{wanted}",
                hint=f"constrain {of} to a release that fits, or build on an image with another {project}",
            )
    for wanted in requirements:
        project = requirement_name(wanted)
        if project in base.installed:
            return UsageError(
                f"the requirement {wanted} does not fit {_held(base, project)}",
                where=error.message,
                hint="what the image holds does not move: leave the requirement out, or build on another image",
            )
    return error


def _held(base: BaseImage, project: str) -> str:
    return f"{project} {base.installed[project].version}, which {base.reference} holds"
