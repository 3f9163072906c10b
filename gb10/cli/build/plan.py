"""``plan``: what `image` would do."""

from pathlib import Path
from typing import Annotated

import typer

from gb10.cli.build.image_options import of_image, with_image_options
from gb10.cli.build.plan_show import print_plan
from gb10.cli.common import AllowUncheckedOption, JsonOption, print_json, verb_app, with_context
from gb10.errors import UsageError
from gb10.image.build.cache_status import check_cache, try_inputs
from gb10.image.context import Context
from gb10.image.request.image_request import Request
from gb10.image.request.kept_plan import planned

app = verb_app("""Show every build step, its key, and whether its result is cached. Builds nothing.

\b
./build.py plan                    # a table
./build.py plan --json             # the same as data (schema: docs/schemas/plan-v1.schema.json)
./build.py plan --dockerfile       # the Dockerfile of the image
./build.py plan --bake             # a docker-bake.json
./build.py plan --arch 12.0f       # for an RTX of the 50 series
./build.py plan --patch fix.diff   # whether the diff applies: exit 6 if not, 13 if its wheel cannot be fetched
./build.py plan --ref vllm=0.30.0 --save my.yaml    # keep the recipe and its lock

\b
hit      the result is in the store
miss     the result will be made
about s  estimated seconds, without downloads; below stands on which machine they were measured
download MB of the step's files that the store has not; then, estimated from the files:
written  MB that making it writes: downloads, the stage, the layer
kept     MB that stay: the files in the store, the layer in the engine; not what is compiled
""")


@app.command(help=app.info.help)
@with_image_options(of_image)
@with_context
def plan(
    *,
    ctx: Context,
    asked: Request,
    as_dockerfile: Annotated[bool, typer.Option("--dockerfile", help="Print the Dockerfile.")] = False,
    as_bake: Annotated[bool, typer.Option("--bake", help="Print docker-bake.json.")] = False,
    save: Annotated[
        Path | None,
        typer.Option("--save", metavar="FILE.yaml", help="Keep the recipe of this plan, and its lock beside it."),
    ] = None,
    allow_unchecked: AllowUncheckedOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show what `image` would do."""
    if as_json + as_dockerfile + as_bake > 1:
        raise UsageError("--json, --dockerfile and --bake exclude each other", hint="choose one")
    made = planned(ctx, asked, shown=not (save or as_dockerfile or as_bake))  # what builds may come of those
    if save:
        from gb10.image.request.saved_recipe import save_recipe  # noqa: PLC0415 - for --save

        lock = save_recipe(made, save)
        ctx.reporter.say(
            f"saved: {save} and {lock}; ./build.py image --engine {save} (with --ref again for a commit's files)"
        )
    if as_dockerfile or as_bake:
        from gb10.image.plan.render import bake, dockerfile  # noqa: PLC0415 - Jinja, for these two

        if as_bake:
            print_json(bake(made))
        else:
            print(dockerfile(made, ctx.catalog.templates))
    else:
        unchecked = try_inputs(ctx, made)
        print_plan(
            ctx, made, check_cache(ctx, made), unchecked=unchecked, as_json=as_json, allow_unchecked=allow_unchecked
        )
