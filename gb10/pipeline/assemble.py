"""Assembling: everything an image's Dockerfile reads, laid out, and the two builds of it: the proof and the image."""

import json
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event

from gb10.engine.buildx import BuildRequest
from gb10.engine.connection import Engine
from gb10.pipeline.context import (
    BuildContext,
    Lay,
    build_context,
    keep_context,
    mod_files,
    overlay_files,
    tree,
    wheels,
)
from gb10.pipeline.grafts import graft_files, make_grafts
from gb10.pipeline.mods import mod_network, mod_secrets
from gb10.pipeline.prepare import fetch_files, make_rootfs, store_paths
from gb10.pipeline.wheels import Wheel, build_wheels, check_sources, show_in_checkout
from gb10.pipeline.workshop import Workshop
from gb10.plan import Plan
from gb10.render import bake, dockerfile


@contextmanager
def image_context(shop: Workshop, plan: Plan, engine: Engine, rebuild: Collection[str] = ()) -> Iterator[BuildContext]:
    """Bases, layers' wheels and compiled wheels, made or found, as a build context; gone afterwards.

    Raises FetchError, BuildError and VerifyError of the steps it runs.
    """
    grafts = make_grafts(shop, plan)  # first: a patch that does not fit stops before anything is compiled
    check_sources(shop, plan)
    bases = [make_rootfs(shop, plan, step) for step in plan.of_kind("rootfs")]
    with _fetching(shop, plan) as fetched:
        built = build_wheels(shop, plan, lambda: engine, rebuild=rebuild)
        fetched.result()
    for wheel in (*built, *grafts):
        show_in_checkout(shop, wheel)
    folders = _folders(shop, plan, built)
    with build_context(shop, _files(shop, plan, bases), folders) as context, mod_secrets(shop, plan) as secrets:
        yield replace(context, secrets=secrets, network=mod_network(plan, engine))


def leave_context(shop: Workshop, plan: Plan, engine: Engine, target: Path) -> None:
    """Leave the image's build context in ``target``: ``docker buildx bake`` there builds the same image."""
    with image_context(shop, plan, engine) as context:
        keep_context(context, target, json.dumps(bake(plan), indent=1) + "\n")


@contextmanager
def _fetching(shop: Workshop, plan: Plan) -> Iterator[Future[None]]:
    """Download the layers' wheels while the compilers run; stop when they fail."""
    stop = Event()
    with ThreadPoolExecutor(1) as pool:
        try:
            yield pool.submit(fetch_files, shop, plan.of_kind("layer"), stop)
        except BaseException:
            stop.set()
            raise


def _files(shop: Workshop, plan: Plan, bases: list[Path]) -> dict[str, Path | bytes]:
    own = shop.catalog.contents
    scripts = ["install.py", "settings.py", "scan.py", *(["grafted.py"] if plan.of_kind("graft") else []),
               *(["mod.py", "changed.py"] if plan.options.mods else [])]  # fmt: skip
    return {
        "Dockerfile": dockerfile(plan, shop.catalog.templates).encode(),
        "plan.json": (json.dumps(plan.record(), indent=1) + "\n").encode(),
        "base-build.tar": bases[0],
        "base-image.tar": bases[1],
        **{name: own[f"inside/{name}"] for name in scripts},
    }


def _folders(shop: Workshop, plan: Plan, built: Iterable[Wheel]) -> dict[str, Lay]:
    """The named contexts, as the Dockerfile and render.bake name them."""
    options = plan.options
    mods = zip(plan.of_kind("mod"), options.mods, strict=True)
    return {
        **{f"{step.name}-wheels": wheels(store_paths(shop, step.files))
           for step in (plan.step("tools"), *plan.of_kind("layer"))},
        **{f"layer-{wheel.name}-wheels": wheels([wheel.path]) for wheel in built},
        **{f"{step.name}-files": tree(graft_files(shop, step)) for step in plan.of_kind("graft")},
        **({"overlay": overlay_files(options.overlay)} if options.overlay else {}),
        **{f"{step.name}-files": mod_files(mod) for step, mod in mods},
    }  # fmt: skip


def proof_request(plan: Plan, context: BuildContext, out: Path) -> BuildRequest:
    """Build every layer and write what each holds to ``out``."""
    return replace(_request(plan, context, "proof"), out=out)


def image_request(plan: Plan, context: BuildContext, *, containerd: bool) -> BuildRequest:
    """Hand the image to the engine's store under the tag that never moves; local layers are not compressed."""
    output = "type=image,compression=uncompressed" if containerd else "type=image"
    return replace(_request(plan, context, "image"), output=output, tags=(plan.tags[-1],))


def _request(plan: Plan, context: BuildContext, target: str) -> BuildRequest:
    """A target of the image's Dockerfile, for the image's platform: for another, BuildKit runs every stage anew."""
    return BuildRequest(
        dockerfile=context.folder / "Dockerfile",
        target=target,
        platform=plan.options.platform,
        context=context.folder,
        contexts=context.contexts,
        secrets=context.secrets,
        network=context.network,
    )
