"""``wheels``: compile only the wheels of an image."""

from typing import Annotated

import typer

from gb10.cli.build.image_options import of_wheels, with_image_options
from gb10.cli.build.plan_show import print_plan
from gb10.cli.common import (
    BuilderOption,
    DryRunOption,
    JsonOption,
    RebuildOption,
    building,
    print_json,
    verb_app,
    with_context,
)
from gb10.image.build.cache_status import check_cache, selected, try_inputs
from gb10.image.context import Context
from gb10.image.request.image_request import Request
from gb10.image.request.kept_plan import planned

AddOption = Annotated[
    list[str] | None,
    typer.Option(
        "--add",
        metavar="NAME==VERSION",
        help="Write this package into the recipe of --engine FILE, lock it, compile it. Repeatable.\n"
        "With --dry-run: print what would be written.",
    ),
]
app = verb_app("""Compile the wheels of an image recipe: SASS for the given arch, cross-compiled on another machine.

\b
./build.py wheels                                   # the wheels that no cache has
./build.py wheels --rebuild flashinfer              # compile again, even on a cache hit
./build.py wheels --arch 12.1a                      # beside the wheels for 12.1f
./build.py wheels --for-model Qwen/Qwen3-30B-A3B    # the FlashInfer kernels that one model needs
./build.py wheels --targets _moe_C_stable_libtorch  # vLLM's wheel with one CMake target compiled here
./build.py wheels --engine my.yaml --add exllamav3==1.6.5  # a CUDA package of the index, written into my.yaml

The store keeps each wheel under its key; wheels/ gets a link. stdout has the paths.
""")


@app.command(help=app.info.help)
@with_image_options(of_wheels)
@with_context
def wheels(
    *,
    ctx: Context,
    asked: Request,
    add: AddOption = None,
    rebuild: RebuildOption = None,
    builder: BuilderOption = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Compile only the wheels."""
    ctx = building(ctx, builder)
    names: tuple[str, ...] = ()
    if add:
        from gb10.image.upgrade.added_packages import add_packages  # noqa: PLC0415 - for --add

        added = add_packages(ctx, ctx.catalog.recipe(asked.engine), add)
        if dry_run:
            print(added.difference, end="")
            return
        added.write()
        names = tuple(entry.name for entry in added.entries)
        ctx.reporter.say(f"{added.path}: {', '.join(names)} added and locked")
    plan = planned(ctx, asked, shown=dry_run).wheels_only(names)
    again = selected(plan, rebuild or ())
    if dry_run:
        unchecked = try_inputs(ctx, plan)
        print_plan(ctx, plan, check_cache(ctx, plan, again), unchecked=unchecked, as_json=as_json)
        return
    from gb10.cli.build.results import wheels_document  # noqa: PLC0415 - what compiles: a plan does without
    from gb10.image.build.image_build import ImageBuild  # noqa: PLC0415 - the same
    from gb10.image.publish.sharing import take_missing  # noqa: PLC0415 - the same

    build = ImageBuild(ctx, plan, rebuild or ())
    build.check_engine()
    take_missing(ctx, plan, build.rebuild)  # first: a wheel from the cache needs no compiler, nor its memory
    build.check()
    built = build.wheels()
    if as_json:
        print_json(wheels_document(built))
        return
    for wheel in built:
        ctx.reporter.say(f"{wheel.name}: {'from the store' if wheel.hit else 'compiled'}, sha256 {wheel.sha256[:12]}")
        print(wheel.path)
