"""``image``: build an image and prove what it holds."""

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from gb10.cli.build.asking import of_image, with_image_options
from gb10.cli.build.plan_show import print_plan
from gb10.cli.build.results import keep_receipt, print_image, say_image
from gb10.cli.common import (
    BuilderOption,
    CacheFromOption,
    CacheToOption,
    CompressionOption,
    DryRunOption,
    JsonOption,
    PushOption,
    RebuildOption,
    building,
    verb_app,
    with_context,
    zstd_level,
)
from gb10.cli.receipt import own_receipt
from gb10.containers.reference import check_reference
from gb10.errors import Gb10Error, UsageError
from gb10.image.build.build_log import Build, keep_build, now, steps_of
from gb10.image.build.costs import keep_speed
from gb10.image.build.estimate import check_room, with_forecast
from gb10.image.build.image_build import Verified, build_image, leave_context, require_torch, survey
from gb10.image.build.input_checks import try_targets
from gb10.image.build.stage import check_named_builder, ready_engine, resume_embedded_engine
from gb10.image.build.wheels import selected, try_patches, try_sources
from gb10.image.context import Context
from gb10.image.inspect.local import local_layers
from gb10.image.plan.values import Plan
from gb10.image.publish.publishing import Published, names_in, publish, require_publishable
from gb10.image.publish.sharing import take_missing
from gb10.image.request.planning import Request, make_plan
from gb10.serving.run.notes import note_image

app = verb_app("""Build an image, prove what it holds, tag it.

\b
./build.py image                                            # vLLM for GB10 (12.1f)
./build.py image --engine sglang --tag my/sglang:test
./build.py image --patch ~/fix.diff --mod fixed-memory      # with your own changes
./build.py image --recipe qwen3-0.6b                        # what this model recipe needs
./build.py image --dry-run                                  # print the plan only
./build.py image --push registry.example/gb10/vllm

The image gets two tags. The first moves with every build; the second holds the plan's key and never moves.
No tag is set before every compiled module is proven to hold the GPU code that it declares.
""")


@app.command(help=app.info.help)
@with_image_options(of_image)
@with_context
def image(
    *,
    called: typer.Context,
    ctx: Context,
    asked: Request,
    tag: Annotated[str | None, typer.Option("--tag", metavar="REF", help="Add this tag to the image.")] = None,
    context: Annotated[
        Path | None,
        typer.Option("--context", metavar="DIR", help="Write the build context here, for `docker buildx bake`."),
    ] = None,
    push: PushOption = None,
    compression: CompressionOption = None,
    rebuild: RebuildOption = None,
    builder: BuilderOption = None,
    cache_from: CacheFromOption = None,
    cache_to: CacheToOption = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Build an image and prove it."""
    receipt = own_receipt(called.obj or ())
    ctx = building(ctx, builder, cache_from, cache_to)
    zstd = zstd_level(compression, pushed=bool(push))
    extra = check_reference(tag) if tag else None
    plan = make_plan(ctx, asked)
    names = _names(plan, push or ())
    again = selected(plan, rebuild or ())
    require_torch(ctx.reporter, plan)
    if dry_run:
        _only_show(ctx, plan, again, names, as_json=as_json)
        return
    ctx, there = _prepare(ctx, plan, again)
    verified = build_image(ctx, plan, rebuild=again, tag=extra)
    _keep(ctx, plan, asked, verified, there)
    if context:
        leave_context(ctx, plan, ready_engine(ctx), context)
    if receipt and receipt == own_receipt(called.obj or ()):
        keep_receipt(ctx.reporter, receipt, verified)
    print_image(ctx.reporter, verified, _published(ctx, plan, verified, names, zstd, as_json=as_json), as_json=as_json)


def _published(
    ctx: Context, plan: Plan, verified: Verified, names: tuple[str, ...], zstd: int | None, *, as_json: bool
) -> Sequence[Published]:
    """What was pushed. When a push fails, the image is shown nevertheless: it is built and tagged."""
    try:
        return publish(ctx, plan.tags[-1], names, zstd) if names else ()
    except Gb10Error:
        if as_json:  # stdout gets the error's document
            say_image(ctx.reporter, verified)
        else:
            print_image(ctx.reporter, verified, (), as_json=False)
        raise


def _names(plan: Plan, push: Collection[str]) -> tuple[str, ...]:
    """What ``--push`` pushes; raises PublishError before anything is built if the rules bar the image."""
    names = names_in(tuple(push), plan.tags[-1], plan.tags)
    require_publishable(plan.local_only if names else (), plan.tags[-1])
    return names


def _only_show(ctx: Context, plan: Plan, again: Collection[str], names: tuple[str, ...], *, as_json: bool) -> None:
    """What ``--dry-run`` does: patches and CMake targets are tried, and the plan is printed."""
    found = survey(ctx, plan, again)
    try_patches(ctx, plan)
    try_sources(ctx, plan)
    try_targets(ctx, plan)
    print_plan(ctx, plan, found, names, as_json=as_json)


def _keep(ctx: Context, plan: Plan, asked: Request, verified: Verified, there: Mapping[str, bool]) -> None:
    """Keep what `report` shows of a build, and which image `run` takes for a model recipe."""
    if not verified.hit:
        keep_build(ctx.store, _log(ctx, plan, verified, there))
        keep_speed(ctx)
    if asked.serves:
        try:
            note_image(ctx.env, asked.serves, plan.tags[-1])
        except UsageError as error:  # the image is built and tagged: that comes first
            ctx.reporter.say(f"run does not find this image by itself, {error.message}: name it by --image")


def _log(ctx: Context, plan: Plan, verified: Verified, there: Mapping[str, bool]) -> Build:
    """What this build did, for `report`."""
    return Build(
        key=plan.key,
        tag=verified.tags[0],
        digest=verified.digest,
        size=verified.size,
        ended=now(),
        cores=os.cpu_count() or 1,
        tasks=tuple(ctx.reporter.timings),
        steps=steps_of(ctx.store, plan, there),
        layers={layer.digest: layer.size for layer in local_layers(ctx, verified.id)},
    )


def _prepare(ctx: Context, plan: Plan, again: Collection[str]) -> tuple[Context, Mapping[str, bool]]:
    """Everything that can stop an image before it starts: builder, engine, disk and memory; which steps are cached.

    The context returns with a forecast of the others.
    """
    check_named_builder(ctx)
    resume_embedded_engine(ctx)
    take_missing(ctx, plan, again)  # first: a wheel from the cache needs no compiler, nor its memory
    found = survey(ctx, plan, again)
    if not found.there["image"]:
        check_room(ctx, found.needs, found.engine)
    return with_forecast(ctx, plan, found.there, found.engine), found.there
