"""A request for an image on an image of others: what bars it, the base, the diffs that are laid over it."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from packaging.version import InvalidVersion, Version

from gb10.containers.reference import is_reference
from gb10.core.fields import Architecture
from gb10.errors import UsageError
from gb10.image.base.base_sources import JIT_CACHE
from gb10.image.context import Context, build_architecture
from gb10.image.lock.base_lock import build_inputs, present_in
from gb10.image.patches.diff import check_size
from gb10.image.patches.foreign import find_foreign
from gb10.image.patches.on_base import GivenDiff, OnBase, place_diff
from gb10.image.patches.releases import load_releases
from gb10.image.patches.selection import BUNDLED, left_out, plan_patches, require_stand_in
from gb10.image.patches.series import load_series, sources
from gb10.image.plan.base_plan import plan_on_image
from gb10.image.plan.options import Mod, Options, Overlay, PatchUse, Served
from gb10.image.plan.values import Plan, Toolkit
from gb10.image.recipe.arch import Arch
from gb10.image.recipe.base_image import BaseImage
from gb10.image.recipe.locked import Lock, LockedPart, LockedWheel
from gb10.image.recipe.on_image import FLASHINFER, NO_ENGINE, OnImage, derived
from gb10.image.request.given_diffs import from_web, split_source
from gb10.image.request.kernel_choice import with_model
from gb10.image.request.kernel_probe import fitting_sets
from gb10.image.request.refs import OPERATORS
from gb10.inside.compile.extension import holds


def on_base(base: BaseImage) -> OnBase:
    """What diffs are placed by."""
    return OnBase(
        reference=base.reference,
        engine=base.engine,
        version=base.version,
        folders={name: one.folder for name, one in base.installed.items()},
        site_packages=base.site_packages,
        editable=frozenset(name for name, one in base.installed.items() if one.editable),
    )


def given_diffs(ctx: Context, base: BaseImage, uses: Sequence[PatchUse]) -> tuple[GivenDiff, ...]:
    """The planned diffs, each with the places of its files. Raises PatchError, also for one that has changed."""
    releases, on, found = load_releases(ctx.catalog.patches), on_base(base), []
    for use in uses:
        text = Path(use.path).read_bytes() if use.path else _of_series(ctx, use)
        if use.path and hashlib.sha256(text).hexdigest() != use.sha256:
            raise UsageError(f"{use.name} changed while it was used", where=use.path, hint="run the command again")
        found.append(place_diff(text, use.name, on, releases, use.source if use.source in releases.sources else None))
    return tuple(found)


def _of_series(ctx: Context, use: PatchUse) -> bytes:
    """The text of a planned patch of ours. Raises UsageError for one that has changed."""
    patch = next((one for one in load_series(ctx.catalog.patches, use.source) if one.name == use.name), None)
    if patch is None or patch.sha256 != use.sha256:
        raise UsageError(f"patches/{use.source}/{use.name} changed while it was used", hint="run the command again")
    return patch.text


@dataclass(frozen=True, kw_only=True, slots=True)
class Over:
    """What the command line lays over a base."""

    arch: Arch
    patches: tuple[str, ...] = ()
    overlay: Overlay | None = None
    mods: tuple[Mod, ...] = ()
    without_patches: tuple[str, ...] = ()
    served: Served | None = None
    """The model whose kernels are compiled; its set takes the place of the recipe's."""


def plan_over(ctx: Context, given: OnImage, lock: Lock, over: Over) -> Plan:
    """The plan of ``given`` on the image that its lock holds. Raises UsageError, PatchError, FetchError."""
    base, build = lock.base, build_inputs(ctx)[0]
    if base is None:
        raise UsageError("the lock names no image", hint="lock it again: ./build.py lock --engine FILE")
    if over.mods and not base.interpreter:
        raise UsageError(f"mods run by Python, and {base.reference} has none", hint="lay files over it: --overlay DIR")
    toolkit = ctx.catalog.toolkit
    if given.compiles:
        recipe = derived(given, base, build)
        if over.served:
            ctx.reporter.say("kernels are chosen by the model's config alone: the engine of an image is not asked")
            recipe, toolkit = with_model(ctx, recipe, toolkit, over.served, None)
            chosen = next(wheel.kernels for wheel in recipe.wheels.values() if wheel.method == "aot")
            given = given.model_copy(update={"kernels": chosen})
        toolkit = fitting_sets(ctx, recipe, lock, toolkit)
        if given.own_kernels:
            check_own_kernels(given, base, lock, toolkit)
        if given.kernels:
            _say_modules(ctx, base, lock)
    ours = sources(ctx.catalog.patches)
    names = [text for text in over.patches if text in ours and not Path(text).exists()]
    diffs = [text for text in over.patches if text not in names]
    series = _series(ctx, given, lock, toolkit=toolkit, names=names, without=over.without_patches)
    options = Options(
        arch=over.arch,
        platform=base.platform,
        build=build_architecture(),
        overlay=over.overlay,
        patches=(*series.uses, *_uses(ctx, base, diffs)),
        mods=over.mods,
        unpatched=series.without,
        kernels=given.kernels or given.own_kernels,
        slim="none",
    )
    return plan_on_image(given, build, lock, toolkit, options)


def _say_modules(ctx: Context, base: BaseImage, lock: Lock) -> None:
    """Print where the modules lie in an image that has modules of its own, or whose FlashInfer takes no package."""
    part = lock.sdists[FLASHINFER]
    if not isinstance(part, LockedPart) or not part.modules:
        return
    cached = base.installed.get(JIT_CACHE)
    stays = f"; what {JIT_CACHE} {cached.version} of the image has beside them stays" if cached else ""
    ctx.reporter.say(f"modules lie in {part.modules}, where FlashInfer {part.version} looks first{stays}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """Our patches that an image gets, and those that are left out by name."""

    uses: tuple[PatchUse, ...]
    without: tuple[str, ...]


def _series(
    ctx: Context, given: OnImage, lock: Lock, *, toolkit: Toolkit, names: Sequence[str], without: Sequence[str]
) -> Series:
    """The patches of our series that are for what the image holds; those of what is compiled always.

    Raises UsageError for a series of what the image does not hold, PatchError.
    """
    base, build = lock.base, build_inputs(ctx)[0]
    compiled = (*((COMPILED,) if given.kernels else ()), *((BUNDLED,) if given.own_kernels else ()))
    chosen = tuple(dict.fromkeys((*names, *compiled)))
    if base is None or not (chosen or without):
        return Series(uses=(), without=())
    known = load_releases(ctx.catalog.patches)
    for name in names:
        if not any(project in base.installed for project in known.source(name).projects):
            raise UsageError(
                f"--patch {name}: {base.reference} does not hold {name}",
                hint="leave it out, or name a diff as ./NAME if a file is meant",
            )
    recipe = derived(given, base, build).model_copy(update={"patches": chosen})
    planned = partial(
        plan_patches, ctx.catalog.patches, recipe, with_held(lock, base), target_of(base), (), toolkit=toolkit
    )
    gone = left_out(ctx.catalog.patches, without, planned()) if without else ()
    uses = planned(without=gone)
    for name in names:
        own = [use.name.removesuffix(".patch") for use in uses if use.source == name]
        held = next(base.installed[project] for project in known.source(name).projects if project in base.installed)
        ctx.reporter.say(f"our patches for {held.name} {held.version}: {', '.join(own) or 'none is for this release'}")
    require_stand_in(recipe, gone, uses)
    _check_calls(ctx, given, base, uses)
    return Series(uses=uses, without=gone)


def split_sets(text: str | None) -> tuple[str | None, str | None]:
    """FlashInfer's set and ours, as ``--kernels`` names them: ``core``, ``gb10-moe``, or both with a comma.

    Raises UsageError for two of a kind.
    """
    names = [name.strip() for name in text.split(",")] if text else []
    own = [name.removeprefix(OWN) for name in names if name.startswith(OWN)]
    theirs = [name for name in names if not name.startswith(OWN)]
    if len(own) > 1 or len(theirs) > 1 or "" in (*own, *theirs):
        raise UsageError(
            f"--kernels {text}: one set of FlashInfer's and one of ours is compiled for an image",
            hint="write for example --kernels core,gb10-moe",
        )
    return next(iter(theirs), None), next(iter(own), None)


def check_own_kernels(given: OnImage, base: BaseImage, lock: Lock, toolkit: Toolkit) -> None:
    """Raise UsageError for an image that has kernels of ours already, or whose FlashInfer bundles another CUTLASS than
    they are written for.
    """
    kernels = toolkit.kernel_sets.get(f"{OWN}{given.own_kernels}")
    part = lock.sdists[FLASHINFER]
    if PACKAGE in base.installed:
        raise UsageError(
            f"{base.reference} holds {PACKAGE} {base.installed[PACKAGE].version} already",
            hint=f"leave {OWN}{given.own_kernels} out of --kernels",
        )
    if kernels is None or not isinstance(part, LockedPart):  # what is no set is refused where sets are planned
        return
    if not part.cutlass or not all(holds(part.cutlass, text) for text in kernels["cutlass"].split(",")):
        raise UsageError(
            f"our kernels {given.own_kernels} need CUTLASS {kernels['cutlass']}, and FlashInfer {part.version} of the"
            f" image bundles {part.cutlass or 'none'}",
            where=base.reference,
            hint=f"leave {OWN}{given.own_kernels} out of --kernels, or build on an image with a later FlashInfer",
        )


def _check_calls(ctx: Context, given: OnImage, base: BaseImage, uses: Sequence[PatchUse]) -> None:
    """Raise UsageError for kernels of ours that no planned patch calls; print which patch calls those that are not
    compiled.
    """
    series = load_series(ctx.catalog.patches, base.engine) if base.engine in sources(ctx.catalog.patches) else ()
    texts = {(base.engine, one.name): one.text for one in series}
    calling = [use for use in uses if OPERATORS in texts.get((use.source, use.name), b"")]
    if given.own_kernels and not calling:
        known = [name for (_, name), text in texts.items() if OPERATORS in text]
        raise UsageError(
            f"nothing in the image would call our kernels {given.own_kernels}",
            where=f"{base.engine or 'no engine'} {base.version}; patches that call them: {', '.join(known) or 'none'}",
            hint=f"add --patch {base.engine}, if one is for this release; else leave {OWN}{given.own_kernels} out",
        )
    if calling and not given.own_kernels and PACKAGE not in base.installed:
        ctx.reporter.say(
            f"{calling[0].name.removesuffix('.patch')} calls kernels of ours that the image does not get:"
            f" --kernels {OWN}moe compiles them"
        )


def target_of(base: BaseImage) -> Architecture:
    """The architecture of an image."""
    return "arm64" if base.platform == "linux/arm64" else "amd64"


def with_held(lock: Lock, base: BaseImage) -> Lock:
    """The lock with what the image holds in place of wheels: by these releases the patches of a series are chosen."""
    target = target_of(base)
    held = tuple(
        LockedWheel(
            name=name,
            version=one.version,
            filename=f"{name.replace('-', '_')}-{Version(one.version)}-py3-none-any.whl",
            sha256="0" * 64,
            size=0,
        )
        for name, one in base.installed.items()
        if name in present_in(base)
    )
    image = {**lock.wheels.image, target: held}
    return lock.model_copy(update={"wheels": lock.wheels.model_copy(update={"image": image})})


def _uses(ctx: Context, base: BaseImage, texts: Sequence[str]) -> tuple[PatchUse, ...]:
    """The diffs of ``--patch``, in order; the source of each is that of its first file."""
    releases, on, found = load_releases(ctx.catalog.patches), on_base(base), list[PatchUse]()
    paths, urls = from_web(ctx, texts)
    for text in paths:
        named, place = split_source(text)
        if named:
            releases.source(named)
        for file in find_foreign(Path(place)):
            check_size(file.stat().st_size, file.name)
            content = file.read_bytes()
            one = place_diff(content, file.name, on, releases, named or None)
            if one.unread:
                ctx.reporter.say(f"{file.name}: left out, no image has them: {', '.join(one.unread[:3])}")
            if one.uncompiled:
                ctx.reporter.say(f"{file.name}: added, and not compiled here: {', '.join(one.uncompiled[:3])}")
            source = named or one.files[0].source
            found.append(
                PatchUse(
                    source=source,
                    project=source,
                    name=file.name,
                    sha256=hashlib.sha256(content).hexdigest(),
                    path=str(file.absolute()),
                    url=urls.get(str(file), ""),
                )
            )
    return tuple(found)


COMPILED: Final = "flashinfer"
"""The series that belongs to the sources of kernels."""
OWN: Final = "gb10-"
"""How the name of a set of our own kernels begins, beside those of FlashInfer's."""
PACKAGE: Final = "gb10-kernels"


def beside(path: Path, names: Sequence[str]) -> tuple[str, ...]:
    """Files that a recipe names, by their paths beside it; the name of a mod, and a URL, stay as they are."""
    return tuple(str(path.parent / name) if (path.parent / name).exists() else name for name in names)


def plain_engine(text: str) -> str:
    """The engine that ``--engine`` names beside ``--from``; raises UsageError for a recipe file."""
    if "/" in text or "." in text:
        raise UsageError(
            f"--from excludes --engine {text}",
            hint="a recipe file names its image itself: base: {image: NAME@sha256:…}",
        )
    return text


def check_from(reference: str) -> str:
    """The reference of ``--from``; raises UsageError for what names no image."""
    if not is_reference(reference):
        raise UsageError(
            f"--from {reference}: this names no image", hint="write NAME@sha256:…, or NAME:TAG, which is resolved now"
        )
    return reference


def release_of(base: BaseImage) -> tuple[str, str]:
    """The engine and the release by which a mod says whether it fits; an image without, or of no release, is 0."""
    try:
        return base.engine or NO_ENGINE, str(Version(base.version))
    except InvalidVersion:
        return base.engine or NO_ENGINE, "0"


def require_engine(base: BaseImage, wanted: str | None, where: str) -> None:
    """Raise UsageError when the image does not hold the engine that is wanted."""
    if wanted and wanted != base.engine:
        holds = f"{base.engine} {base.version}" if base.engine else "no engine that gb10 knows"
        raise UsageError(
            f"{where} is {wanted}, and the image holds {holds}",
            where=base.reference,
            hint="leave the engine out: the image decides it",
        )
