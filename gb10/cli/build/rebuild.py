"""``rebuild``: build an image again from the record that it holds, and compare it layer by layer."""

import uuid
from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated, Final

import typer

from gb10.cli.build.image_options import ModNetworkOption, OverlayOption
from gb10.cli.build.plan_show import print_plan
from gb10.cli.common import (
    BuilderOption,
    DryRunOption,
    JsonOption,
    RebuildOption,
    building,
    print_json,
    reported,
    verb_app,
    with_context,
)
from gb10.cli.values import ModOption
from gb10.core.printing import printable
from gb10.core.reporter import Reporter
from gb10.errors import VerifyError
from gb10.image.build.image_build import ImageBuild
from gb10.image.build.rebuild import Comparison, reproduce, subject_of
from gb10.image.build.stage import check_builder, ready_engine
from gb10.image.context import Context
from gb10.image.request.plan_replay import ReplayInputs, replayed

SHOWN: Final = 20
"""Files that are listed for people."""


def print_comparison(reporter: Reporter, target: str, found: Comparison, *, as_json: bool) -> None:
    """The layers on stderr, the digest of what was built again on stdout."""
    if as_json:
        print_json(document(target, found))
        return
    for pair in found.layers:
        state = "same" if pair.same else "built" if not found.compared else "differs"
        reporter.say(f"  {state:8} {pair.name:32} {(pair.after or pair.before or '')[:19]}")
    if found.same:
        reporter.say(f"{target} is reproduced: {len(found.layers)} of {len(found.layers)} layers have the same bytes")
    elif not found.compared:
        reporter.say("there is no image to compare with: compare the digest with one of another machine")
    print(found.digest)


def document(target: str, found: Comparison) -> dict[str, object]:
    """The comparison as data."""
    return {
        "schema": "gb10/rebuild/v1",
        "target": target,
        "digest": found.digest,
        "compared": found.compared,
        "same": found.same,
        "layers": [{**asdict(pair), "same": pair.same} for pair in found.layers],
        "settings": list(found.settings),
        "files": [asdict(one) for one in found.files],
        "count": found.count,
        "report": found.report,
    }


def refuse(target: str, found: Comparison) -> None:
    """Raise VerifyError when there is a difference."""
    if found.same or not found.compared:
        return
    other = sum(not pair.same for pair in found.layers)
    what = f"{other} of {len(found.layers)} layers differ" if other else "its settings differ"
    raise VerifyError(
        f"{target} is not reproduced: {what}",
        where="\n".join(_lines(found)),
        hint="a file of a compiled wheel: does --rebuild NAME give it again, here and on the first machine?\n"
        "a file of a mod with the network: what it fetched may be another today",
    )


def _lines(found: Comparison) -> Iterator[str]:
    for pair in found.layers:
        if not pair.same:
            yield f"{pair.name}: {pair.before or 'no such layer'}, now {pair.after or 'no such layer'}"
    yield from (f"setting: {name}" for name in found.settings)
    yield from (printable(f"/{one.path}: {', '.join(one.differs)}") for one in found.files[:SHOWN])
    if found.count > SHOWN:
        yield f"and {found.count - SHOWN} more files"
    if not found.count and not all(pair.same for pair in found.layers):
        yield "no file differs: the order or the form of an archive does"
    yield from map(printable, found.report.splitlines())


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
    given = ReplayInputs(mods=tuple(mod or ()), mod_network=mod_network, overlay=overlay)
    with replayed(ctx, subject.record, given) as plan:
        build = ImageBuild(ctx, plan, again or (), rebuild_id=uuid.uuid4().hex[:12])
        if dry_run:
            print_plan(ctx, plan, build.status(), as_json=as_json)
            return
        build.check()
        comparison = reproduce(build, engine, subject.image)
    print_comparison(ctx.reporter, target, comparison, as_json=as_json)
    with reported(as_json):
        refuse(target, comparison)
