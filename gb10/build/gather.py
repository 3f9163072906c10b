"""Gathering: all inputs of an image, from the store or made now, as a build context."""

import json
from collections.abc import Collection, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from gb10.build.assemble import image_files, image_folders, upstream_folders, upstream_request
from gb10.build.bases import make_rootfs
from gb10.build.contexts import BuildContext, build_context, keep_context
from gb10.build.grafts import early_grafts, late_grafts
from gb10.build.mod_layers import mod_network, mod_secrets
from gb10.build.stage import note_steps, run_build
from gb10.build.wheel_build import build_wheels, check_sources, installable, show_in_checkout
from gb10.engine.connection import Engine
from gb10.engine.images import drop_image
from gb10.host.stop import Stop, beside
from gb10.plan.render import bake
from gb10.plan.values import Plan
from gb10.sources.locked_files import fetch_files
from gb10.workshop import Workshop


@contextmanager
def image_context(
    shop: Workshop, plan: Plan, engine: Engine, rebuild: Collection[str] = (), *, layers: bool = True
) -> Iterator[BuildContext]:
    """Bases, layers' wheels and compiled wheels as a build context; deleted on exit.

    With ``layers``, upstream's are built while a compiler runs. Raises FetchError, BuildError and VerifyError of the
    steps it runs.
    """
    grafts = early_grafts(shop, plan)  # first: a patch that does not fit stops before anything is compiled
    check_sources(shop, plan)
    compiling = bool(rebuild) or not all(
        shop.store.entry("wheels", step.key).exists() for step in plan.of_kind("wheel")
    )
    both = replace(shop, stop=Stop())
    with _meanwhile(both, plan, engine if layers and compiling else None) as ready:
        built = build_wheels(both, plan, lambda: engine, rebuild=rebuild)
        grafts += late_grafts(both, plan)
        ready.result()
        wheels = installable(plan, built)
        for wheel in (*wheels, *grafts):
            show_in_checkout(shop, wheel)
        folders = image_folders(shop.store, plan, wheels)
        with build_context(shop.store, image_files(shop, plan), folders) as context, mod_secrets(shop, plan) as secrets:
            yield replace(context, secrets=secrets, network=mod_network(plan, engine))


def leave_context(shop: Workshop, plan: Plan, engine: Engine, target: Path) -> None:
    """Leave the image's build context in ``target``: ``docker buildx bake`` there builds the same image."""
    with image_context(shop, plan, engine, layers=False) as context:
        keep_context(context, target, json.dumps(bake(plan), indent=1) + "\n")


@contextmanager
def _meanwhile(shop: Workshop, plan: Plan, engine: Engine | None) -> Iterator[Future[str | None]]:
    """Run the steps that need no compiled wheel beside the compilers. The first failure stops both.

    The image that holds upstream's layers is dropped last.
    """
    ahead = Future[str | None]()
    try:
        with beside(shop.stop, partial(_ahead, shop, plan, engine)) as ahead:
            yield ahead
    finally:
        holder = ahead.result() if ahead.done() and not ahead.exception() else None
        if engine and holder:
            drop_image(engine, holder)


def _ahead(shop: Workshop, plan: Plan, engine: Engine | None) -> str | None:
    """The layers' wheels and the bases; with an engine, also upstream's layers: the id of the image that holds them."""
    fetch_files(shop, (plan.step("tools"), *plan.of_kind("layer")))
    for base in plan.of_kind("rootfs"):
        make_rootfs(shop, plan, base)
    if engine is None:
        return None
    with (
        build_context(shop.store, image_files(shop, plan), upstream_folders(shop.store, plan)) as context,
        shop.talk.task("upstream's layers", unit="steps") as task,
    ):
        request = upstream_request(plan, context, engine)
        return run_build(
            shop, engine, request, plan.step("image"), lambda event: note_steps(shop.talk, task, event)
        ).config
