"""Gathering: all inputs of an image, from the store or made now, as a build context."""

import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from gb10.containers.connection import Engine
from gb10.core.concurrency import Stop, beside
from gb10.image.build.assemble import image_files, image_folders, upstream_folders, upstream_request
from gb10.image.build.bases import STAGES, base_tars, bases_as_images, make_rootfs
from gb10.image.build.built import one_by_one
from gb10.image.build.contexts import BuildContext, build_context, keep_context
from gb10.image.build.grafts import early_grafts, late_grafts
from gb10.image.build.mod_layers import mod_network, mod_secrets
from gb10.image.build.outlook import DOWNLOAD, UPSTREAM, outlook
from gb10.image.build.stage import note_steps, run_build
from gb10.image.build.upstream import Upstream, forget_sent, upstream_image, upstream_layers, upstream_wheels
from gb10.image.build.wheels import build_wheels, check_sources, installable, show_in_checkout
from gb10.image.context import Context
from gb10.image.locked_files import fetch_files
from gb10.image.plan.render import bake
from gb10.image.plan.values import Plan


@contextmanager
def prepare_build_context(
    ctx: Context,
    plan: Plan,
    engine: Engine,
    rebuild: Collection[str] = (),
    *,
    layers: bool = True,
    rebuild_id: str = "",
) -> Iterator[BuildContext]:
    """Bases, layers' wheels and compiled wheels as a build context; deleted on exit.

    With ``layers``, upstream's are built beside the compilers; ``rebuild_id`` as in ``upstream_image``. Raises
    FetchError, BuildError and VerifyError of the steps it runs.
    """
    # first: a patch that does not fit stops before anything is compiled
    grafts = early_grafts(ctx, plan, rebuild_id=bool(rebuild_id))
    check_sources(ctx, plan)
    compiling = bool(rebuild) or not all(ctx.store.entry("wheels", step.key).exists() for step in plan.of_kind("wheel"))
    both = replace(ctx, stop=Stop())
    ahead = partial(_ahead, both, plan, engine if layers else None, compiling=compiling, rebuild_id=rebuild_id)
    with beside(both.stop, ahead) as ready:
        built = build_wheels(both, plan, lambda: engine, rebuild=rebuild)
        grafts += late_grafts(both, plan, rebuild_id=bool(rebuild_id))
        upstream = ready.result()
        if upstream:
            forget_sent(engine, plan, compiled=compiling)
        wheels = installable(plan, built)
        for wheel in (*wheels, *grafts):
            show_in_checkout(ctx, wheel)
        folders = image_folders(ctx.store, plan, wheels, upstream_wheels(plan) if upstream else ())
        lent = bases_as_images(ctx, plan, engine, STAGES, rebuild_id) if layers else {}
        files = {**image_files(ctx, plan), **({} if lent else base_tars(ctx.store, plan))}
        with build_context(ctx.store, files, folders) as context, mod_secrets(ctx, plan) as secrets:
            contexts = {**context.contexts, **lent, **(upstream.contexts if upstream else {})}
            yield replace(context, contexts=contexts, secrets=secrets, network=mod_network(plan, engine))


def leave_context(ctx: Context, plan: Plan, engine: Engine, target: Path) -> None:
    """Leave the image's build context in ``target``: ``docker buildx bake`` there builds the same image."""
    with prepare_build_context(ctx, plan, engine, layers=False) as context:
        keep_context(context, target, json.dumps(bake(plan), indent=1) + "\n")


def _ahead(ctx: Context, plan: Plan, engine: Engine | None, *, compiling: bool, rebuild_id: str) -> Upstream | None:
    """The layers' wheels and the bases; with an engine, also upstream's layers.

    An engine that does not share layers with BuildKit makes them in the image's own solve, and before it only while a
    compiler runs.
    """
    ctx.forecast.begin(DOWNLOAD)
    fetch_files(ctx, (plan.step("tools"), *plan.of_kind("layer"), *plan.of_kind("rehearsal")))
    ctx.forecast.end(DOWNLOAD)
    if engine and one_by_one(ctx, engine):  # its bases are images, made when they are missing
        return upstream_image(ctx, plan, engine, rebuild_id) if upstream_layers(plan) else None
    for base in plan.of_kind("rootfs"):
        make_rootfs(ctx, plan, base, rebuild_id=bool(rebuild_id))
    if engine and upstream_layers(plan) and compiling and not rebuild_id:
        _build_upstream(ctx, plan, engine)
    return None


def _build_upstream(ctx: Context, plan: Plan, engine: Engine) -> None:
    files = {**image_files(ctx, plan), **base_tars(ctx.store, plan)}
    ctx.forecast.begin(UPSTREAM)
    with (
        build_context(ctx.store, files, upstream_folders(ctx.store, plan)) as context,
        ctx.reporter.task(UPSTREAM, unit="steps", outlook=outlook(ctx, UPSTREAM)) as task,
    ):
        request = upstream_request(plan, context)
        run_build(ctx, engine, request, plan.step("image"), lambda event: note_steps(ctx.reporter, task, event))
    ctx.forecast.end(UPSTREAM)
