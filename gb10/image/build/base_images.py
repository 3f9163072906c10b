"""Bases as images of the engine: BuildKit is sent a root file system once, and not for each build."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from gb10.containers.build_cache import forget, sent
from gb10.containers.buildx.build import BuildRequest
from gb10.containers.connection import Engine
from gb10.containers.images import ImageInfo, find_image, tag_image
from gb10.core.store import Store
from gb10.image.build.bases import make_rootfs, rootfs_path
from gb10.image.build.built import one_by_one
from gb10.image.build.contexts import build_context
from gb10.image.build.kept_images import layers_tag, made_image, note_image, noted_image
from gb10.image.context import Context
from gb10.image.plan.render import base_dockerfile, build_args
from gb10.image.plan.values import Plan, Step

STAGES: Final = {"base-build": "base-build", "base-image": "base"}
"""The stage of our Dockerfiles that each base fills."""


def provide_bases(
    ctx: Context, plan: Plan, engine: Engine, names: Iterable[str], rebuild_id: str = ""
) -> tuple[dict[str, Path], dict[str, str]]:
    """What fills the stages of bases: files of the main context, or images of the engine as named contexts.

    An engine whose images BuildKit would have to copy gets files. Raises FetchError, BuildError, EngineError.
    """
    lent = bases_as_images(ctx, plan, engine, names, rebuild_id)
    return {} if lent else base_files(ctx, plan, names), lent


def bases_as_images(
    ctx: Context, plan: Plan, engine: Engine, names: Iterable[str], rebuild_id: str = ""
) -> dict[str, str]:
    """The images of bases as named contexts; none for an engine whose images BuildKit would have to copy."""
    if not one_by_one(ctx, engine):
        return {}
    return {STAGES[name]: f"docker-image://{base_image(ctx, plan, engine, name, rebuild_id)}" for name in names}


def base_tars(store: Store, plan: Plan) -> dict[str, Path]:
    """The root file systems of both bases, which the store has, as files of a main context."""
    return {f"{name}.tar": rootfs_path(store, plan.step(name)) for name in STAGES}


def base_files(ctx: Context, plan: Plan, names: Iterable[str]) -> dict[str, Path]:
    """The root file systems of bases, made when they are missing, as files of a main context."""
    return {f"{name}.tar": make_rootfs(ctx, plan, plan.step(name)) for name in names}


def base_image(ctx: Context, plan: Plan, engine: Engine, name: str, rebuild_id: str = "") -> str:
    """The tag of the engine's image of a base, built when it is missing. Raises FetchError, BuildError, EngineError.

    ``rebuild_id`` names a run that makes it again.
    """
    tag = base_tag(plan, name, rebuild_id)
    with ctx.store.locked(f"base-{tag.rpartition('-')[2]}", ctx.reporter.waiting_for(name)):
        there = find_image(engine, tag) if rebuild_id else noted_image(ctx, engine, tag)
        if there is None:
            make_rootfs(ctx, plan, plan.step(name), rebuild_id=bool(rebuild_id))
            with ctx.reporter.task(f"{name} into the engine"):
                image = _build(ctx, plan, engine, plan.step(name), rebuild_id=bool(rebuild_id))
            if rebuild_id:  # it goes when that run ends, so no note keeps it
                tag_image(engine, image.id, (tag,))
            else:
                note_image(ctx, engine, tag, image)
    return tag


def base_tag(plan: Plan, name: str, rebuild_id: str = "") -> str:
    """The tag of a base's image: its key, and the machine it is for."""
    return layers_tag("base", [plan.step(name).key, _platform(plan, name), *([rebuild_id] if rebuild_id else [])])


def _platform(plan: Plan, name: str) -> str:
    return plan.options.platform if name == "base-image" else f"linux/{plan.options.build}"


def _build(ctx: Context, plan: Plan, engine: Engine, step: Step, *, rebuild_id: bool) -> ImageInfo:
    text = base_dockerfile(plan, step.name, _platform(plan, step.name), ctx.catalog.templates)
    files: dict[str, Path | bytes] = {
        "Dockerfile": text.encode(),
        f"{step.name}.tar": rootfs_path(ctx.store, step),
    }
    with build_context(ctx.store, files, {}) as context:
        request = BuildRequest(
            dockerfile=context.folder / "Dockerfile",
            target="base",
            platform=_platform(plan, step.name),
            context=context.folder,
            build_args=build_args(plan),
            output="type=image",
            rebuild_id=rebuild_id,
        )
        image = made_image(ctx, engine, request, step)
    if engine.kind == "embedded":  # in your Docker it may be yours
        done = sent(["context"])
        forget(engine, lambda about: about in done)
    return image
