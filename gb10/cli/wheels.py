"""``wheels``: compile only the wheels of an image."""

from gb10.cli.asking import asks_for, of_wheels
from gb10.cli.common import (
    BuilderOption,
    DryRunOption,
    JsonOption,
    RebuildOption,
    building,
    opens,
    print_json,
    verb_app,
)
from gb10.cli.plan_show import print_plan
from gb10.cli.results import wheels_document
from gb10.image.build.cmake_names import try_targets
from gb10.image.build.estimate import check_room
from gb10.image.build.grafts import early_grafts, late_grafts, try_patches
from gb10.image.build.outlook import with_forecast
from gb10.image.build.rates import keep_speed
from gb10.image.build.stage import check_builder, check_named_builder, ready_engine
from gb10.image.build.survey import survey
from gb10.image.build.wheel_build import (
    build_wheels,
    check_sources,
    installable,
    selected,
    show_in_checkout,
    try_sources,
)
from gb10.image.context import Workshop
from gb10.image.publish.sharing import take_missing
from gb10.image.request.planning import Request, make_plan

app = verb_app("""Compile the wheels of an image recipe: SASS for the given arch, cross-compiled on another machine.

\b
./build.py wheels                                   # the wheels that no cache has
./build.py wheels --rebuild flashinfer              # compile again, even on a cache hit
./build.py wheels --arch 12.1a                      # beside the wheels for 12.1f
./build.py wheels --for-model Qwen/Qwen3-30B-A3B    # the FlashInfer kernels that one model needs
./build.py wheels --targets _moe_C_stable_libtorch  # vLLM's wheel with one CMake target compiled here

The store keeps each wheel under its key; wheels/ gets a link. stdout has the paths.
""")


@app.command(help=app.info.help)
@asks_for(of_wheels)
@opens
def wheels(
    *,
    shop: Workshop,
    asked: Request,
    rebuild: RebuildOption = None,
    builder: BuilderOption = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Compile only the wheels."""
    shop = building(shop, builder)
    plan = make_plan(shop, asked).wheels_only()
    again = selected(plan, rebuild or ())
    if not dry_run:
        check_named_builder(shop)
        take_missing(shop, plan, again)  # first: a wheel from the cache needs no compiler, nor its memory
    found = survey(shop, plan, again)
    if dry_run:
        try_patches(shop, plan)
        try_sources(shop, plan)
        try_targets(shop, plan)
        print_plan(shop, plan, found, as_json=as_json)
        return
    if not all(found.there[step.name] for step in plan.of_kind("wheel")):
        check_room(shop, found.needs, found.engine)
    shop = with_forecast(shop, plan, found.there, found.engine)
    grafts = early_grafts(shop, plan)  # first: a patch that does not fit stops before anything is compiled
    check_sources(shop, plan)
    compiled = build_wheels(shop, plan, lambda: check_builder(shop, ready_engine(shop)), rebuild=again)
    keep_speed(shop)
    built = (*installable(plan, compiled), *grafts, *late_grafts(shop, plan))
    for wheel in built:
        show_in_checkout(shop, wheel)
    if as_json:
        print_json(wheels_document(built))
        return
    for wheel in built:
        shop.talk.say(f"{wheel.name}: {'from the store' if wheel.hit else 'compiled'}, sha256 {wheel.sha256[:12]}")
        print(wheel.path)
