"""``rebuild``: build an image again from the record that it holds, and compare it layer by layer."""

from typing import Annotated

import typer

from gb10.cli.asking import ModNetworkOption, OverlayOption
from gb10.cli.common import (
    BuilderOption,
    DryRunOption,
    JsonOption,
    RebuildOption,
    building,
    reported,
    verb_app,
    with_context,
)
from gb10.cli.plan_show import print_plan
from gb10.cli.rebuild_show import print_comparison, refuse
from gb10.cli.values import ModOption
from gb10.image.build.cache_status import survey_again
from gb10.image.build.estimate import check_room
from gb10.image.build.reproducing import reproduce
from gb10.image.build.stage import check_builder, ready_engine
from gb10.image.build.subject import subject_of
from gb10.image.build.wheel_build import selected
from gb10.image.context import Context
from gb10.image.request.plan_replay import Given, replayed

app = verb_app("""Build an image again from the record that it holds, and compare layer by layer.

\b
./build.py rebuild gb10/vllm:0.33.0-cu130-sm121f                        # compiled wheels come from the store
./build.py rebuild gb10/vllm:0.33.0-cu130-sm121f --rebuild flashinfer   # compile these again, too
./build.py rebuild IMAGE --mod ~/my-mod --overlay ~/over                # what an image does not hold of its inputs
./build.py rebuild plan.json                                            # /usr/share/gb10/plan.json out of an image

An image of gb10 holds its plan: recipe, lock, options, patches that were given by hand. This checkout adds the code and
its own patches and mods; when it would make another image of them, the error names the steps. Bases, layers, grafts and
settings are made anew beside the image; BuildKit's cache is not read. The new image is removed afterwards.

The exit code is 9 when a layer or a setting of the image differs. The first files that differ are listed, with
diffoscope's words where it is installed.
""")


@app.command(help=app.info.help)
@with_context
def rebuild(
    *,
    ctx: Context,
    target: Annotated[
        str, typer.Argument(metavar="IMAGE|FILE.json", help="An image of the container engine, or a plan.json.")
    ],
    overlay: OverlayOption = None,
    mod: ModOption = None,
    mod_network: ModNetworkOption = False,
    again: RebuildOption = None,
    builder: BuilderOption = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Build an image again and compare."""
    ctx = building(ctx, builder)
    engine = check_builder(ctx, ready_engine(ctx))
    subject = subject_of(ctx.store, engine, target)
    given = Given(mods=tuple(mod or ()), mod_network=mod_network, overlay=overlay)
    with replayed(ctx, subject.record, given) as plan:
        compiled = selected(plan, again or ())
        found = survey_again(ctx, plan, compiled)
        if dry_run:
            print_plan(ctx, plan, found, as_json=as_json)
            return
        check_room(ctx, found.needs, found.engine)
        comparison = reproduce(ctx, plan, engine, subject.image, compiled)
    print_comparison(ctx.reporter, target, comparison, as_json=as_json)
    with reported(as_json):
        refuse(target, comparison)
