"""Gathering: all inputs of an image, from the store or made now, as a build context."""

import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from gb10.containers.connection import Engine
from gb10.core.stop import Stop, beside
from gb10.image.build.assemble import image_files, image_folders, upstream_folders, upstream_request
from gb10.image.build.base_images import STAGES, base_tars, lent_bases
from gb10.image.build.bases import make_rootfs
from gb10.image.build.built import one_by_one
from gb10.image.build.contexts import BuildContext, build_context, keep_context
from gb10.image.build.grafts import early_grafts, late_grafts
from gb10.image.build.mod_layers import mod_network, mod_secrets
from gb10.image.build.outlook import DOWNLOAD, UPSTREAM, outlook
from gb10.image.build.stage import note_steps, run_build
from gb10.image.build.upstream import Upstream, forget_sent, upstream_image, upstream_layers, upstream_wheels
from gb10.image.build.wheel_build import build_wheels, check_sources, installable, show_in_checkout
from gb10.image.context import Workshop
from gb10.image.locked_files import fetch_files
from gb10.image.plan.render import bake
from gb10.image.plan.values import Plan


@contextmanager
def image_context(
    shop: Workshop,
    plan: Plan,
    engine: Engine,
    rebuild: Collection[str] = (),
    *,
    layers: bool = True,
    anew: str = "",
) -> Iterator[BuildContext]:
    """Bases, layers' wheels and compiled wheels as a build context; deleted on exit.

    With ``layers``, upstream's are built beside the compilers; ``anew`` as in ``upstream_image``. Raises FetchError,
    BuildError and VerifyError of the steps it runs.
    """
    # first: a patch that does not fit stops before anything is compiled
    grafts = early_grafts(shop, plan, anew=bool(anew))
    check_sources(shop, plan)
    compiling = bool(rebuild) or not all(
        shop.store.entry("wheels", step.key).exists() for step in plan.of_kind("wheel")
    )
    both = replace(shop, stop=Stop())
    ahead = partial(_ahead, both, plan, engine if layers else None, compiling=compiling, anew=anew)
    with beside(both.stop, ahead) as ready:
        built = build_wheels(both, plan, lambda: engine, rebuild=rebuild)
        grafts += late_grafts(both, plan, anew=bool(anew))
        upstream = ready.result()
        if upstream:
            forget_sent(engine, plan, compiled=compiling)
        wheels = installable(plan, built)
        for wheel in (*wheels, *grafts):
            show_in_checkout(shop, wheel)
        folders = image_folders(shop.store, plan, wheels, upstream_wheels(plan) if upstream else ())
        lent = lent_bases(shop, plan, engine, STAGES, anew) if layers else {}
        files = {**image_files(shop, plan), **({} if lent else base_tars(shop.store, plan))}
        with build_context(shop.store, files, folders) as context, mod_secrets(shop, plan) as secrets:
            contexts = {**context.contexts, **lent, **(upstream.contexts if upstream else {})}
            yield replace(context, contexts=contexts, secrets=secrets, network=mod_network(plan, engine))


def leave_context(shop: Workshop, plan: Plan, engine: Engine, target: Path) -> None:
    """Leave the image's build context in ``target``: ``docker buildx bake`` there builds the same image."""
    with image_context(shop, plan, engine, layers=False) as context:
        keep_context(context, target, json.dumps(bake(plan), indent=1) + "\n")


def _ahead(shop: Workshop, plan: Plan, engine: Engine | None, *, compiling: bool, anew: str) -> Upstream | None:
    """The layers' wheels and the bases; with an engine, also upstream's layers.

    An engine that does not share layers with BuildKit makes them in the image's own solve, and before it only while a
    compiler runs.
    """
    shop.forecast.begin(DOWNLOAD)
    fetch_files(shop, (plan.step("tools"), *plan.of_kind("layer"), *plan.of_kind("rehearsal")))
    shop.forecast.end(DOWNLOAD)
    if engine and one_by_one(shop, engine):  # its bases are images, made when they are missing
        return upstream_image(shop, plan, engine, anew) if upstream_layers(plan) else None
    for base in plan.of_kind("rootfs"):
        make_rootfs(shop, plan, base, anew=bool(anew))
    if engine and upstream_layers(plan) and compiling and not anew:
        _build_upstream(shop, plan, engine)
    return None


def _build_upstream(shop: Workshop, plan: Plan, engine: Engine) -> None:
    files = {**image_files(shop, plan), **base_tars(shop.store, plan)}
    shop.forecast.begin(UPSTREAM)
    with (
        build_context(shop.store, files, upstream_folders(shop.store, plan)) as context,
        shop.talk.task(UPSTREAM, unit="steps", outlook=outlook(shop, UPSTREAM)) as task,
    ):
        request = upstream_request(plan, context)
        run_build(shop, engine, request, plan.step("image"), lambda event: note_steps(shop.talk, task, event))
    shop.forecast.end(UPSTREAM)
