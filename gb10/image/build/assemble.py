"""Assembling: the named contexts of an image's Dockerfile, and its builds: upstream's layers, and the image."""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from gb10.containers.buildx.build import BuildRequest, image_output
from gb10.containers.connection import Engine
from gb10.core.fetch import store_paths
from gb10.core.store import Store
from gb10.image.build.contexts import BuildContext, Lay, archive, mod_files, overlay_files, scanner_files, tree, wheels
from gb10.image.build.costs import module_peaks
from gb10.image.build.wheels import Wheel, graft_files
from gb10.image.context import Context
from gb10.image.patches.patched import diffs_by_hand
from gb10.image.plan.catalog import module_path
from gb10.image.plan.compiles import INSTALLER
from gb10.image.plan.plan_record import record
from gb10.image.plan.render import build_args, dockerfile
from gb10.image.plan.steps import (
    GRAFTER,
    MOD_RUNNER,
    OF_IMAGE,
    OVERLAYER,
    PROGRAM,
    SCRIPTS,
    SETTINGS,
    SLIMMER,
    request_text,
)
from gb10.image.plan.values import Plan, Step


def image_files(ctx: Context, plan: Plan) -> dict[str, Path | bytes]:
    """The files of the main context but for the bases."""
    own = ctx.catalog.contents
    scripts = [
        INSTALLER,
        SETTINGS,
        *([GRAFTER] if plan.of_kind("graft") else []),
        *([OVERLAYER] if plan.options.overlay else []),
        *([MOD_RUNNER] if plan.options.mods else []),
    ]
    return {
        "Dockerfile": dockerfile(plan, ctx.catalog.templates).encode(),
        "plan.json": (json.dumps(record(plan, diffs_by_hand(plan.options.patches)), indent=1) + "\n").encode(),
        **{Path(name).name: own[name] for name in scripts},
        **scanner_files(own, mods=bool(plan.options.mods)),
        **slim_files(own, plan.of_kind("layer")),
        **(rehearsal_files(ctx, plan) if plan.of_kind("rehearsal") else {}),
    }


def rehearsal_files(ctx: Context, plan: Plan) -> dict[str, bytes]:
    """The program of a rehearsal, its scripts in a folder as in the package gb10, and its request.

    Triton and vLLM import the modules of OF_IMAGE by their own names, here as in the image.
    """
    own, toolkit = ctx.catalog.contents, ctx.catalog.toolkit
    scripts = (*toolkit.digests_of(*SCRIPTS), "inside/compile/compile_slots.py")
    return {
        "rehearsal.py": archive("rehearse.rehearsal", {name: own[name] for name in PROGRAM}),
        **{f"rehearsal/{Path(name).name if name in OF_IMAGE else module_path(name)}": own[name] for name in scripts},
        "rehearsal/request.json": request_text(plan, toolkit).encode(),
        "rehearsal/peaks.json": module_peaks(ctx.catalog),
    }


def slim_files(own: Mapping[str, bytes], layers: Iterable[Step]) -> dict[str, bytes]:
    """The slimming program, and for each layer the rules that bite on it."""
    rules = {f"{step.name}-slim.json": step.slim for step in layers if step.slim}
    if not rules:
        return {}
    program = archive("slim.slim", {name: own[name] for name in SLIMMER})
    written = {name: (json.dumps(rows, default=dict) + "\n").encode() for name, rows in rules.items()}
    return {"slim.py": program, **written}


def upstream_folders(store: Store, plan: Plan) -> dict[str, Lay]:
    """The named contexts of the layers that hold only locked wheels."""
    layers = [step for step in plan.of_kind("layer") if step.files]
    steps = (plan.step("tools"), *layers, *plan.of_kind("rehearsal"))
    return {f"{step.name}-wheels": wheels(store_paths(store, step.files)) for step in steps}


def image_folders(store: Store, plan: Plan, built: Iterable[Wheel], present: Collection[str] = ()) -> dict[str, Lay]:
    """The named contexts, as the Dockerfile and render.bake name them; those that are ``present`` already stay empty.

    BuildKit reads none of the empty ones, and wants to know each name that a Dockerfile has.
    """
    options = plan.options
    mods = zip(plan.of_kind("mod"), options.mods, strict=True)
    return {
        **upstream_folders(store, plan),
        **{name: tree({}) for name in present},
        **{f"layer-{wheel.name}-wheels": wheels([wheel.path]) for wheel in built},
        **{f"{step.name}-files": tree(graft_files(store, step)) for step in plan.of_kind("graft")},
        **({"overlay-files": overlay_files(options.overlay)} if options.overlay else {}),
        **{f"{step.name}-files": mod_files(mod) for step, mod in mods},
    }


def image_request(plan: Plan, context: BuildContext, engine: Engine, tag: str) -> BuildRequest:
    """Build, scan and export the image in one solve, under ``tag``.

    A mod's result may differ on each run, so a cached scan may not match it. Its layer is scanned each time.
    """
    fresh = tuple(f"scan-{step.name}" for step in plan.of_kind("mod"))
    return replace(build_request(plan, context, "image"), output=image_output(engine), tags=(tag,), fresh=fresh)


def build_request(plan: Plan, context: BuildContext, target: str) -> BuildRequest:
    """A target of the image's Dockerfile, for the image's platform. For another one BuildKit reruns every stage.

    ``upstream`` are the layers that need no compiled wheel, into the build cache.
    """
    return BuildRequest(
        dockerfile=context.folder / "Dockerfile",
        target=target,
        platform=plan.options.platform,
        context=context.folder,
        contexts=context.contexts,
        secrets=context.secrets,
        network=context.network,
        build_args=build_args(plan),
    )
