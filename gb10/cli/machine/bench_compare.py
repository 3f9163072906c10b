"""``bench compare``: which of two servers is faster, from launches in turn, or from saved results."""

import time
from pathlib import Path
from typing import Annotated, Final

import typer

from gb10.cli.common import JsonOption, with_context
from gb10.cli.machine.bench_results import give_compared, keep_bundle
from gb10.cli.machine.bench_sides import starting_of
from gb10.cli.machine.bench_target import Target, judged_targets
from gb10.cli.machine.load_options import plans
from gb10.cli.verb import inject
from gb10.image.context import Context
from gb10.serving.benchmark.compared import compare_launches
from gb10.serving.benchmark.comparing import run_comparison, sides_of_compare
from gb10.serving.benchmark.launch_journal import open_journal
from gb10.serving.benchmark.launcher import Starting
from gb10.serving.benchmark.saved_results import is_saved, saved_launches
from gb10.serving.load_generator.endpoint import reach
from gb10.serving.load_generator.load_plan import Plan

FOLDER: Final = "gb10-compare-%Y%m%d-%H%M%S"
LaunchesOption = Annotated[
    int,
    typer.Option("--launches", metavar="N", min=1, max=200, help="Launches of each side, or passes of an endpoint."),
]
MarginOption = Annotated[
    float, typer.Option("--margin", metavar="PERCENT", min=0.0, max=50.0, help="Less than this is the same.")
]
OutOption = Annotated[
    Path | None, typer.Option("--out", metavar="DIR", help="Where results go, or are. Default: a new folder here.")
]


@inject("starting", starting_of, first=True)
@plans
@with_context
@judged_targets
def compare(
    *,
    a: Annotated[str, typer.Argument(metavar="A", help="One side.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The other side.")],
    ctx: Context,
    plan: Plan,
    starting: Starting,
    target: Target,
    launches: LaunchesOption = 5,
    margin: MarginOption = 2.0,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare two servers: is B faster than A?

    \b
    ./build.py bench compare --recipe qwen3-0.6b gb10/vllm:0.32 gb10/vllm:0.33 --launches 8    # two images
    ./build.py bench compare --recipe glm-4.7-nvfp4-sglang moe_runner_backend=triton moe_runner_backend=cutlass
    ./build.py bench compare --launch 'vllm serve M --port {port} {args}' 'args=' 'args=--enforce-eager'
    ./build.py bench compare ours.yaml theirs.yaml                    # two recipes
    ./build.py bench compare http://spark-1:8000 http://spark-2:8000  # two servers that run
    ./build.py bench compare before/ after/                           # saved results, one of each launch

    A launch is the unit: a server that is started again is up to 8 % faster or slower. So each side is launched
    several times, in the order A B B A. docs/bench.md says what is computed. Run it again with --out DIR after an
    interruption, or with more --launches: nothing is measured twice. Exit 9 when the answers of a side are bad.
    """
    if not starting.recipe and not starting.launch and is_saved(a, b):
        found = compare_launches(saved_launches(a, b), (a, b), margin=margin / 100)
        give_compared(ctx, found, out, as_json=as_json)
        return
    plan.of_one_length("bench compare")
    folder = out or Path(time.strftime(FOLDER))
    sides = sides_of_compare(ctx, starting, (a, b), folder)
    for url in sides.names if sides.unit == "passes" else ():
        reach(url, target.model, ctx.env)
    measure = target.measure(ctx, plan)
    head = {"kind": "compare", "names": list(sides.names), "unit": sides.unit, **sides.what, **measure.document}
    lines = run_comparison(ctx, sides.contest(launches, measure), open_journal(ctx, folder, head))
    keep_bundle(ctx, folder, measure.book, starting.recipe)
    found = compare_launches(lines, sides.names, margin=margin / 100, unit=sides.unit)
    give_compared(ctx, found, folder, as_json=as_json)
