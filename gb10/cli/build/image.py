"""``image``: build an image and prove what it holds."""

from pathlib import Path
from typing import Annotated

import typer

from gb10.cli.build.image_options import of_image, with_image_options
from gb10.cli.build.plan_show import print_plan
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
from gb10.image.build.cache_status import check_cache, check_torch, selected, try_inputs
from gb10.image.context import Context
from gb10.image.request.image_request import Request
from gb10.image.request.kept_plan import planned

app = verb_app("""Build an image, prove what it holds, tag it.

\b
./build.py image                                            # vLLM for GB10 (12.1f)
./build.py image --engine sglang --tag my/sglang:test
./build.py image --patch ~/fix.diff --mod fixed-memory      # with your own changes
./build.py image --recipe qwen3-0.6b                        # what this model recipe needs
./build.py image --from vllm/vllm-openai@sha256:… --patch ~/fix.diff   # above an image of others
./build.py image --dry-run                                  # print the plan only
./build.py image --timings                                  # where the time went: phases, programs
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
    timings: Annotated[
        bool,
        typer.Option("--timings", help="Measure where the time of the build goes, and print it by phase and program."),
    ] = False,
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

    # the plan, and what bars its image before anything is built
    plan = planned(ctx, asked, shown=dry_run)
    names: tuple[str, ...] = ()
    if push:
        from gb10.image.publish.base_terms import require_republishable  # noqa: PLC0415 - for --push
        from gb10.image.publish.publishing import names_in, publish, require_publishable  # noqa: PLC0415 - for --push

        names = names_in(tuple(push), plan.tags[-1], plan.tags)
        require_publishable(plan.local_only if names else (), plan.tags[-1])
        if names and plan.base:
            require_republishable(plan.base, plan.base.labels)
    again = selected(plan, rebuild or ())
    check_torch(ctx, plan)
    if dry_run and timings:
        raise UsageError("--timings measures a build, and --dry-run builds nothing", hint="leave one of them out")
    if dry_run:
        unchecked = try_inputs(ctx, plan)
        print_plan(ctx, plan, check_cache(ctx, plan, again), names, unchecked, as_json=as_json)
        return
    from gb10.cli.build.results import build_and_record, keep_receipt, print_image, summary  # noqa: PLC0415 - for a build

    build, verified, kept = build_and_record(ctx, plan, rebuild or (), extra, timings=timings)

    # which image `run` takes, and what the same command answers while nothing changes
    if asked.serves:
        from gb10.serving.run.notes import note_image  # noqa: PLC0415 - for a model recipe

        try:
            note_image(ctx.env, asked.serves, plan.tags[-1])
        except UsageError as error:  # the image is built and tagged: that comes first
            ctx.reporter.say(f"run does not find this image by itself, {error.message}: name it by --image")
    if context:
        build.context(context)
    if receipt and receipt == own_receipt(called.obj or ()):
        keep_receipt(ctx.reporter, receipt, verified)

    try:
        published = publish(ctx, plan.tags[-1], names, zstd) if names else ()
    except Gb10Error:  # the image is built and tagged, so it is shown; with --json, stdout gets the error's document
        if as_json:
            for line in (*summary(verified), verified.digest):
                ctx.reporter.say(line)
        else:
            print_image(ctx.reporter, verified, (), as_json=False)
        raise
    print_image(ctx.reporter, verified, published, kept, as_json=as_json)
