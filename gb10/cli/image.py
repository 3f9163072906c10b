"""``image``: build a proven image."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from gb10.cli.common import (
    ArchOption,
    DryRunOption,
    EngineOption,
    FlashinferRefOption,
    JsonOption,
    ModNetworkOption,
    ModOption,
    OverlayOption,
    PatchOption,
    PlatformOption,
    QuietOption,
    RebuildFlashinferOption,
    RebuildKernelsOption,
    RebuildVllmOption,
    SglangRefOption,
    SourceOption,
    TargetsOption,
    VerboseOption,
    VllmRefOption,
    print_json,
    rebuilds,
    request,
    verb_app,
    workshop,
)  # fmt: skip
from gb10.cli.show import image_document, keep_receipt, print_image, print_plan
from gb10.cli.unchanged import own_receipt
from gb10.engine.reference import check_reference
from gb10.pipeline.builder import ready_engine, wake_engine
from gb10.pipeline.estimate import check_room
from gb10.pipeline.gather import leave_context
from gb10.pipeline.grafts import try_patches
from gb10.pipeline.image import build_image
from gb10.pipeline.planning import make_plan
from gb10.pipeline.survey import survey
from gb10.pipeline.wheels import selected

app = verb_app("""Build an image, prove what it holds, tag it.

\b
./build.py image --engine vllm --arch 12.1f
./build.py image --engine vllm --arch 12.1a --tag my/vllm:test
./build.py image --engine vllm --dry-run --json

Two tags: the first moves with each build, the second carries the plan's key and never moves.
Nothing is tagged before every module compiled here was found to hold the GPU code it declares.
""")


@app.command(help=app.info.help)
def image(
    *,
    engine: EngineOption = "vllm",
    arch: ArchOption = "12.1f",
    platform: PlatformOption = None,
    overlay: OverlayOption = None,
    patch: PatchOption = None,
    source: SourceOption = None,
    vllm_ref: VllmRefOption = None,
    sglang_ref: SglangRefOption = None,
    flashinfer_ref: FlashinferRefOption = None,
    mod: ModOption = None,
    mod_network: ModNetworkOption = False,
    targets: TargetsOption = None,
    tag: Annotated[str | None, typer.Option("--tag", help="One more tag for the image.")] = None,
    context: Annotated[
        Path | None, typer.Option("--context", help="Leave the build context here, for `docker buildx bake`.")
    ] = None,
    rebuild_flashinfer: RebuildFlashinferOption = False,
    rebuild_kernels: RebuildKernelsOption = False,
    rebuild_vllm: RebuildVllmOption = False,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
    verbose: VerboseOption = 0,
    quiet: QuietOption = False,
) -> None:
    """Build a proven image."""
    receipt = own_receipt(sys.argv[1:])
    shop = workshop(verbose, quiet)
    extra = check_reference(tag) if tag else None
    refs = {"vllm": vllm_ref, "sglang": sglang_ref, "flashinfer": flashinfer_ref}
    plan = make_plan(shop, request(engine, arch, platform, overlay, patches=patch, sources=source, refs=refs, mods=mod,
                                   mod_network=mod_network, targets=targets))  # fmt: skip
    rebuild = selected(plan, rebuilds(flashinfer=rebuild_flashinfer, kernels=rebuild_kernels, vllm=rebuild_vllm))
    if not dry_run:
        wake_engine(shop)
    found = survey(shop, plan, rebuild)
    if dry_run:
        try_patches(shop, plan)
        print_plan(shop, plan, found, as_json=as_json)
        return
    if not found.there["image"]:
        check_room(shop, found.needs, found.engine)
    verified = build_image(shop, plan, rebuild=rebuild, tag=extra)
    if context:
        leave_context(shop, plan, ready_engine(shop), context)
    if receipt and receipt == own_receipt(sys.argv[1:]):
        keep_receipt(shop, receipt, verified)
    if as_json:
        print_json(image_document(shop, verified))
    else:
        print_image(shop, verified)
