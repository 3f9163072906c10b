"""A request for an image on an image of others: what bars it, the base, the diffs that are laid over it."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gb10.containers.reference import is_reference
from gb10.errors import UsageError
from gb10.image.context import Context, build_architecture
from gb10.image.lock.base_lock import build_inputs
from gb10.image.patches.diff import check_size
from gb10.image.patches.foreign import find_foreign
from gb10.image.patches.on_base import GivenDiff, OnBase, place_diff
from gb10.image.patches.releases import load_releases
from gb10.image.plan.base_plan import plan_on_image
from gb10.image.plan.options import Mod, Options, Overlay, PatchUse
from gb10.image.plan.values import Plan
from gb10.image.recipe.arch import Arch
from gb10.image.recipe.base_image import BaseImage
from gb10.image.recipe.locked import Lock
from gb10.image.recipe.on_image import OnImage
from gb10.image.request.given_diffs import from_web, named_source


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
        text = Path(use.path or "").read_bytes()
        if hashlib.sha256(text).hexdigest() != use.sha256:
            raise UsageError(f"{use.name} changed while it was used", where=use.path, hint="run the command again")
        found.append(place_diff(text, use.name, on, releases, use.source if use.source in releases.sources else None))
    return tuple(found)


@dataclass(frozen=True, kw_only=True, slots=True)
class Over:
    """What the command line lays over a base."""

    arch: Arch
    patches: tuple[str, ...] = ()
    overlay: Overlay | None = None
    mods: tuple[Mod, ...] = ()


def plan_over(ctx: Context, given: OnImage, lock: Lock, over: Over) -> Plan:
    """The plan of ``given`` on the image that its lock holds. Raises UsageError, PatchError, FetchError."""
    base = lock.base
    if base is None:
        raise UsageError("the lock names no image", hint="lock it again: ./build.py lock --engine FILE")
    if over.mods and not base.interpreter:
        raise UsageError(f"mods run by Python, and {base.reference} has none", hint="lay files over it: --overlay DIR")
    options = Options(
        arch=over.arch,
        platform=base.platform,
        build=build_architecture(),
        overlay=over.overlay,
        patches=_uses(ctx, base, over.patches),
        mods=over.mods,
        slim="none",
    )
    return plan_on_image(given, build_inputs(ctx)[0], lock, ctx.catalog.toolkit, options)


def _uses(ctx: Context, base: BaseImage, texts: Sequence[str]) -> tuple[PatchUse, ...]:
    """The diffs of ``--patch``, in order; the source of each is that of its first file."""
    releases, on, found = load_releases(ctx.catalog.patches), on_base(base), list[PatchUse]()
    paths, urls = from_web(ctx, texts)
    for text in paths:
        named, place = named_source(text)
        if named:
            releases.source(named)
        for file in find_foreign(Path(place)):
            check_size(file.stat().st_size, file.name)
            content = file.read_bytes()
            one = place_diff(content, file.name, on, releases, named or None)
            if one.unread:
                ctx.reporter.say(f"{file.name}: left out, no image has them: {', '.join(one.unread[:3])}")
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


KERNELS: Final = "the image's own are used; to change them, lay files over it (--overlay) or change it (--mod)"


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


def refuse_options(given: Mapping[str, bool]) -> None:
    """Raise UsageError for an option that chooses what our own recipes build."""
    wrong = next((name for name, there in given.items() if there), None)
    if wrong is None:
        return
    if wrong in ("--kernels", "--for-model"):
        raise UsageError(f"{wrong} compiles no kernels for an image of others yet", hint=KERNELS)
    raise UsageError(f"--from excludes {wrong}", hint="--from keeps what the image holds; leave out one of them")


def require_engine(base: BaseImage, wanted: str | None, where: str) -> None:
    """Raise UsageError when the image does not hold the engine that is wanted."""
    if wanted and wanted != base.engine:
        holds = f"{base.engine} {base.version}" if base.engine else "no engine that gb10 knows"
        raise UsageError(
            f"{where} is {wanted}, and the image holds {holds}",
            where=base.reference,
            hint="leave the engine out: the image decides it",
        )
