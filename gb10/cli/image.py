"""``image``: build a proven image."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from gb10.build.estimate import check_room
from gb10.build.gather import leave_context
from gb10.build.grafts import try_patches
from gb10.build.image_build import build_image, require_torch
from gb10.build.stage import ready_engine, wake_engine
from gb10.build.survey import survey
from gb10.build.wheel_build import selected
from gb10.cli.asking import asks_for, of_image
from gb10.cli.common import (
    BuilderOption,
    CacheFromOption,
    CacheToOption,
    CompressionOption,
    DryRunOption,
    JsonOption,
    PushOption,
    QuietOption,
    RebuildOption,
    VerboseOption,
    verb_app,
    workshop,
    zstd_level,
)
from gb10.cli.show import keep_receipt, print_image, print_plan
from gb10.cli.unchanged import own_receipt
from gb10.engine.reference import check_reference
from gb10.errors import UsageError
from gb10.request.planning import Request, make_plan
from gb10.ship.publishing import names_in, publish
from gb10.ship.sharing import take_missing

app = verb_app("""Build an image, prove what it holds, tag it.

\b
./build.py image --engine vllm --arch 12.1f
./build.py image --engine vllm --arch 12.1a --tag my/vllm:test
./build.py image --engine vllm --dry-run --json
./build.py image --engine vllm --push registry.example/gb10/vllm

Two tags: the first moves with each build, the second carries the plan's key and never moves.
Nothing is tagged before every module compiled here was found to hold the GPU code it declares.
""")


@app.command(help=app.info.help)
@asks_for(of_image)
def image(
    *,
    asked: Request,
    tag: Annotated[str | None, typer.Option("--tag", help="One more tag for the image.")] = None,
    context: Annotated[
        Path | None, typer.Option("--context", help="Leave the build context here, for `docker buildx bake`.")
    ] = None,
    push: PushOption = None,
    compression: CompressionOption = None,
    rebuild: RebuildOption = None,
    builder: BuilderOption = None,
    cache_from: CacheFromOption = None,
    cache_to: CacheToOption = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
    verbose: VerboseOption = 0,
    quiet: QuietOption = False,
) -> None:
    """Build a proven image."""
    receipt = own_receipt(sys.argv[1:])
    shop = workshop(verbose, quiet, builder, cache_from, cache_to)
    zstd = zstd_level(compression)
    if compression and not push:
        raise UsageError("--compression is for what is pushed", hint="name where to: --push REGISTRY/NAME")
    extra = check_reference(tag) if tag else None
    plan = make_plan(shop, asked)
    names = names_in(push or (), plan.tags[-1], plan.tags)
    again = selected(plan, rebuild or ())
    require_torch(shop, plan)
    if not dry_run:
        wake_engine(shop)
        take_missing(shop, plan, again)  # first: what is taken needs no compiler, nor its memory
    found = survey(shop, plan, again)
    if dry_run:
        try_patches(shop, plan)
        print_plan(shop, plan, found, names, as_json=as_json)
        return
    if not found.there["image"]:
        check_room(shop, found.needs, found.engine)
    verified = build_image(shop, plan, rebuild=again, tag=extra)
    if context:
        leave_context(shop, plan, ready_engine(shop), context)
    if receipt and receipt == own_receipt(sys.argv[1:]):
        keep_receipt(shop, receipt, verified)
    print_image(shop, verified, publish(shop, plan.tags[-1], names, zstd) if names else (), as_json=as_json)
