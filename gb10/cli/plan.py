"""``plan``: what would happen."""

from typing import Annotated

import typer

from gb10.cli.common import (
    ArchOption,
    EngineOption,
    FlashinferRefOption,
    ForModelOption,
    JsonOption,
    KernelsOption,
    ModNetworkOption,
    ModOption,
    OverlayOption,
    PatchOption,
    PlatformOption,
    SglangRefOption,
    SourceOption,
    TargetsOption,
    VllmRefOption,
    print_json,
    request,
    verb_app,
    workshop,
)  # fmt: skip
from gb10.cli.show import print_plan
from gb10.errors import UsageError
from gb10.pipeline.grafts import try_patches
from gb10.pipeline.planning import make_plan
from gb10.pipeline.survey import survey
from gb10.render import bake, dockerfile

app = verb_app("""Show every step, its key, and whether its result is already there. Changes nothing.

\b
./build.py plan                    a table
./build.py plan --json             the same as data (schema: docs/schemas/plan-v1.schema.json)
./build.py plan --dockerfile       the Dockerfile that would be built
./build.py plan --bake             docker-bake.json
""")


@app.command(help=app.info.help)
def plan(
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
    kernels: KernelsOption = None,
    for_model: ForModelOption = None,
    as_json: JsonOption = False,
    as_dockerfile: Annotated[bool, typer.Option("--dockerfile", help="Print the Dockerfile.")] = False,
    as_bake: Annotated[bool, typer.Option("--bake", help="Print docker-bake.json.")] = False,
) -> None:
    """Show what would happen."""
    if as_json + as_dockerfile + as_bake > 1:
        raise UsageError("--json, --dockerfile and --bake are three different outputs", hint="choose one of them")
    shop = workshop()
    refs = {"vllm": vllm_ref, "sglang": sglang_ref, "flashinfer": flashinfer_ref}
    asked = request(engine, arch, platform, overlay, patches=patch, sources=source, refs=refs, mods=mod,
                    mod_network=mod_network, targets=targets, kernels=kernels, model=for_model)  # fmt: skip
    made = make_plan(shop, asked)
    if as_dockerfile:
        print(dockerfile(made, shop.catalog.templates))
    elif as_bake:
        print_json(bake(made))
    else:
        try_patches(shop, made)
        print_plan(shop, made, survey(shop, made), as_json=as_json)
