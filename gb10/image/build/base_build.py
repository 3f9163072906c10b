"""An image on an image of others: the base in the engine, the files that are laid over it, and its build context."""

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from gb10.containers.connection import Engine
from gb10.containers.images import find_image, refuse_triggers, require_image
from gb10.containers.registry.transfer import Moves, pull
from gb10.core.fetch import store_paths
from gb10.core.machine import uv_platform
from gb10.core.store import Store
from gb10.errors import BuildError, PublishError
from gb10.image.base.base_files import read_base_files
from gb10.image.base.base_sources import JIT_CACHE
from gb10.image.build.bases import Bases, for_add, make_rootfs
from gb10.image.build.contexts import (
    BuildContext,
    Content,
    Lay,
    build_context,
    mod_files,
    overlay_files,
    scanner_files,
    tree,
    wheels,
    write_tree,
)
from gb10.image.build.mod_layers import mod_network, mod_secrets
from gb10.image.build.wheels import wheel_file
from gb10.image.context import Context
from gb10.image.lock.base_lock import NEWEST_GLIBC
from gb10.image.locked_files import fetch_files
from gb10.image.patches.on_base import apply_on
from gb10.image.patches.patched import diffs_by_hand
from gb10.image.plan.base_plan import PLACER, laid_over, module_folder_of
from gb10.image.plan.plan_record import record
from gb10.image.plan.render import dockerfile
from gb10.image.plan.steps import MOD_RUNNER
from gb10.image.plan.values import PLACES, Plan, Step
from gb10.image.proof.wheel_files import is_inside
from gb10.image.recipe.base_image import BaseImage
from gb10.image.request.from_image import given_diffs, on_base
from gb10.image.rootfs.added_wheels import unpack_wheels

FILES = "files"


def ready_base(ctx: Context, base: BaseImage, engine: Engine) -> None:
    """Have the base in the engine: layers that it lacks travel. Raises PublishError, EngineError, UsageError.

    A builder of the user's own fetches it itself.
    """
    if engine.builder:
        return
    if find_image(engine, base.reference) is None:
        size = sum(layer.size for layer in base.layers)
        ctx.reporter.say(f"base {base.reference}: up to {size / 1e6:,.0f} MB to pull")
        with ctx.reporter.task("pull the base", size) as task:
            pull(engine, base.reference, base.platform, Moves(on_move=partial(ctx.reporter.update, task)))
    refuse_triggers(engine, require_image(engine, base.reference))


def try_patched(ctx: Context, plan: Plan) -> tuple[str, ...]:
    """Apply the diffs to the files of the base, unless the store has the result. Raises PatchError.

    Returns what could not be checked, and why: files that neither the engine nor the registry gives.
    """
    for step in plan.of_kind("patched"):
        try:
            if not _entry(ctx.store, step).exists():
                _patch(ctx, plan)
        except PublishError as error:
            return (f"{step.about}: {error.message}",)
    return ()


def _patch(ctx: Context, plan: Plan) -> dict[str, bytes]:
    base = plan.lock.base
    if base is None:
        return {}
    diffs = given_diffs(ctx, base, laid_over(plan.options))
    changed = apply_on(diffs, on_base(base), partial(read_base_files, ctx, base))
    for one in diffs:
        ctx.reporter.detail(f"{one.name}: applied to {len(one.files)} files")
    return changed


def placed_files(ctx: Context, plan: Plan, step: Step, *, again: bool = False) -> dict[str, Path]:
    """The files of a step that are laid over the base, by their path below the root.

    Made when they are missing, and ``again`` when that is asked.
    """
    entry = _entry(ctx.store, step)
    with ctx.store.locked(f"placed-{step.key}", ctx.reporter.waiting_for(step.name)):
        if entry.exists() and not again:
            ctx.reporter.hit(step.name)
        else:
            with ctx.reporter.task(step.name):
                ctx.store.replace(entry, partial(_make, ctx, plan, step))
    return stored_files(ctx.store, step)


def stored_files(store: Store, step: Step) -> dict[str, Path]:
    """The same of a step that was made."""
    root = _entry(store, step) / FILES
    return {path.relative_to(root).as_posix(): path for path in sorted(root.rglob("*")) if path.is_file()}


def _make(ctx: Context, plan: Plan, step: Step, work: Path) -> None:
    if step.kind == "added":
        fetch_files(ctx, (step,))
        compiled = [need for need in map(plan.step, step.needs) if need.kind == "wheel"]
        made = [wheel_file(ctx.store.entry("wheels", need.key)) for need in compiled]
        base = plan.lock.base
        install_added(base, [*store_paths(ctx.store, step.files), *made], work)
        for need in compiled:
            if folder := module_folder_of(plan, need.name):
                move_modules(work / FILES, folder, keep_dist_info=base is not None and JIT_CACHE in base.installed)
        return
    changed = _patch(ctx, plan)
    write_tree(work / FILES, {path.removeprefix("/"): content for path, content in changed.items()})


def install_added(base: BaseImage | None, files: Sequence[Path], work: Path) -> None:
    """Unpack wheels where the image's Python looks first; its programs go where that Python lies.

    Nothing of the image runs, and nothing is resolved. Raises BuildError.
    """
    if base is None or not base.site_packages:
        raise BuildError("the image has no folder for Python packages", hint="leave out requirements")
    if not is_inside(base.site_packages[0].strip("/")):
        raise BuildError(
            f"the image's folder for packages leads out of it: {ascii(base.site_packages[0])[:200]}",
            where=base.reference,
            hint="take another image",
        )
    place = work / "wheels"
    wheels(files)(place)
    newest = min(int(base.glibc.partition(".")[2]), NEWEST_GLIBC)
    platform = uv_platform("arm64" if base.platform == "linux/arm64" else "amd64", newest)
    unpack_wheels(place, work / FILES, base, uv_platform=platform, cache=work / "cache")
    for folder in (place, work / "cache"):
        shutil.rmtree(folder)


def move_modules(root: Path, folder: str, *, keep_dist_info: bool) -> None:
    """Move the modules of our package flashinfer_jit_cache below ``root`` into the folder where FlashInfer looks
    first. The package goes, and its dist-info where the image has one of that name: ``keep_dist_info``.
    """
    (info,) = root.rglob("flashinfer_jit_cache-*.dist-info")
    site, place = info.parent, root / folder.strip("/")
    package, own = site / "flashinfer_jit_cache", "flashinfer_jit_cache/"
    place.mkdir(parents=True, exist_ok=True)
    for module in sorted((package / "modules").iterdir()):
        module.rename(place / module.name)
    for gone in (package / "modules", *package.glob("*.*")):
        shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
    if not any(package.iterdir()):
        package.rmdir()
    if keep_dist_info:
        shutil.rmtree(info)
        return
    lines, began = (info / "RECORD").read_text(encoding="utf-8").splitlines(), f"{own}modules/"
    moved = [
        f"{os.path.relpath(place, site)}/{line.removeprefix(began)}" if line.startswith(began) else line
        for line in lines
        if line.startswith(began) or not line.startswith(own)
    ]
    (info / "RECORD").write_text("".join(f"{line}\n" for line in moved), encoding="utf-8")


def _entry(store: Store, step: Step) -> Path:
    return store.entry(PLACES[step.kind], step.key)


@contextmanager
def on_image_context(
    ctx: Context, plan: Plan, base: BaseImage, engine: Engine | None, rebuild_id: str = ""
) -> Iterator[BuildContext]:
    """The build context of an image on ``base``; deleted on exit. Without an engine the build base is a file of it.

    Raises PatchError, FetchError, BuildError, EngineError.
    """
    own = ctx.catalog.contents
    if engine:
        ready_base(ctx, base, engine)
    layers: dict[str, Lay] = {
        f"{step.name}-files": tree(placed_files(ctx, plan, step, again=bool(rebuild_id)))
        for step in (*plan.of_kind("added"), *plan.of_kind("patched"))
    }
    if plan.options.overlay:
        layers["overlay-files"] = overlay_files(plan.options.overlay)
    mods = zip(plan.of_kind("mod"), plan.options.mods, strict=True)
    layers |= {f"{step.name}-files": mod_files(mod) for step, mod in mods}
    images = Bases(ctx, plan, engine, rebuild_id).images(["base-build"]) if engine else {}
    tars = {} if images else {"base-build.tar": for_add(make_rootfs(ctx, plan, plan.step("base-build")))}
    files: dict[str, Content] = {
        "Dockerfile": dockerfile(plan, ctx.catalog.templates).encode(),
        "plan.json": (json.dumps(record(plan, diffs_by_hand(plan.options.patches)), indent=1) + "\n").encode(),
        Path(PLACER).name: own[PLACER],
        **({Path(MOD_RUNNER).name: own[MOD_RUNNER]} if plan.options.mods else {}),
        **scanner_files(own, mods=bool(plan.options.mods)),
        **tars,
    }
    with build_context(ctx.store, files, layers) as context, mod_secrets(ctx, plan) as secrets:
        network = mod_network(plan, engine) if engine else "none"
        yield replace(context, contexts={**context.contexts, **images}, secrets=secrets, network=network)
