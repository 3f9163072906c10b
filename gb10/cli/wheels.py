"""``wheels``: compile the wheels only."""

from gb10.build.estimate import check_room
from gb10.build.grafts import early_grafts, late_grafts, try_patches
from gb10.build.stage import check_builder, ready_engine
from gb10.build.survey import survey
from gb10.build.wheel_build import build_wheels, check_sources, installable, selected, show_in_checkout
from gb10.cli.asking import asks_for, of_wheels
from gb10.cli.common import (
    BuilderOption,
    DryRunOption,
    JsonOption,
    QuietOption,
    RebuildOption,
    VerboseOption,
    print_json,
    verb_app,
    workshop,
)
from gb10.cli.show import print_plan, wheels_document
from gb10.request.planning import Request, make_plan
from gb10.ship.sharing import take_missing

app = verb_app("""Compile the wheels of an image recipe: real SASS for the arch asked, cross-compiled where needed.

\b
./build.py wheels                          what is not in the store yet, nor in the wheel cache
./build.py wheels --rebuild flashinfer     really compiled again, whatever the store holds
./build.py wheels --rebuild kernels        the same for kernels of our own
./build.py wheels --arch 12.1a             lives beside the 12.1f one
./build.py wheels --for-model Qwen/Qwen3-30B-A3B
                                           FlashInfer's kernels for the heads, windows and formats of one model
./build.py wheels --targets _moe_C_stable_libtorch
                                           vLLM's wheel, with this target of its CMake project compiled here

Each wheel lies in the store under its key and is linked into wheels/; its path is printed.
""")


@app.command(help=app.info.help)
@asks_for(of_wheels)
def wheels(
    *,
    asked: Request,
    rebuild: RebuildOption = None,
    builder: BuilderOption = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
    verbose: VerboseOption = 0,
    quiet: QuietOption = False,
) -> None:
    """Compile the wheels only."""
    shop = workshop(verbose, quiet, builder)
    plan = make_plan(shop, asked).wheels_only()
    again = selected(plan, rebuild or ())
    if not dry_run:
        take_missing(shop, plan, again)  # first: what is taken needs no compiler, nor its memory
    found = survey(shop, plan, again)
    if dry_run:
        try_patches(shop, plan)
        print_plan(shop, plan, found, as_json=as_json)
        return
    if not all(found.there[step.name] for step in plan.of_kind("wheel")):
        check_room(shop, found.needs, found.engine)
    grafts = early_grafts(shop, plan)  # first: a patch that does not fit stops before anything is compiled
    check_sources(shop, plan)
    compiled = build_wheels(shop, plan, lambda: check_builder(shop, ready_engine(shop)), rebuild=again)
    built = (*installable(plan, compiled), *grafts, *late_grafts(shop, plan))
    for wheel in built:
        show_in_checkout(shop, wheel)
    if as_json:
        print_json(wheels_document(built))
        return
    for wheel in built:
        shop.talk.say(f"{wheel.name}: {'from the store' if wheel.hit else 'compiled'}, sha256 {wheel.sha256[:12]}")
        print(wheel.path)
