"""``bench``: time servers, compare them and judge their answers; check and time our kernels on a GPU."""

from typing import Annotated

import typer

from gb10.cli.bench_compare import compare
from gb10.cli.bench_guard import guard
from gb10.cli.bench_matrix import matrix
from gb10.cli.bench_quality import quality
from gb10.cli.bench_replay import replay
from gb10.cli.bench_serve import serve
from gb10.cli.bench_show import document, print_measured
from gb10.cli.bench_show_saved import show
from gb10.cli.common import DryRunOption, JsonOption, print_json, reported, verb_app, with_context
from gb10.cli.plan_show import print_plan
from gb10.cli.values import ArchOption, EngineOption
from gb10.image.build.cache_status import survey
from gb10.image.build.estimate import check_room
from gb10.image.build.stage import ready_engine
from gb10.image.context import Context
from gb10.image.gemm.measure import judge, measure
from gb10.image.gemm.program_build import build_program
from gb10.image.plan.catalog import DEFAULT_ENGINE
from gb10.image.plan.programs import GEMM, plan_program
from gb10.image.request.planning import Request, make_plan

app = verb_app(
    """Time servers, compare them and judge their answers; check and time our kernels on this machine's GPU.

\b
./build.py bench serve http://spark-1:8000                  # throughput, with the answers checked
./build.py bench compare --recipe qwen3-0.6b IMAGE IMAGE    # is the second faster? launched in turn
./build.py bench matrix qwen3.5-397b-nvfp4-sglang --dry-run # which settings would be launched and judged
./build.py bench guard stream.sse                           # judge a saved stream
./build.py bench gemm                                       # on a Spark: compile, check, time our kernels
./build.py bench gemm --arch 12.0f                          # on an x86 machine with an RTX of the 50 series
""",
    group=True,
)
app.command()(serve)
app.command()(guard)
app.command()(compare)
app.command()(matrix)
app.command()(replay)
app.command()(quality)
app.command()(show)


@app.command()
@with_context
def gemm(
    *,
    ctx: Context,
    engine: EngineOption = DEFAULT_ENGINE,
    arch: ArchOption = "12.1f",
    require_gpu: Annotated[bool, typer.Option("--require-gpu", help="Exit 9 when there is no GPU to time.")] = False,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Check and time CUTLASS GEMMs in FP8 and NVFP4.

    \b
    ./build.py bench gemm                    # compile, check, time
    ./build.py bench gemm --require-gpu      # exit 9 when there is no GPU

    Dense 4096x14336x4096, and grouped shapes of experts. The program is compiled by the lock's compilers, without a
    network, from the patched CUTLASS of the recipe. The store keeps it; it needs only the driver. Without a GPU of the
    arch, the command checks the rest (shared memory, instructions and formats) and prints the program's path.

    Each result is compared with the simplest kernel before anything is timed; exit 9 when one is wrong. A time is the
    median of 20 runs. The peak is 500 TFLOPS (FP4, dense) of a GB10; for another GPU the table omits it.
    """
    plan = plan_program(GEMM, make_plan(ctx, Request(engine=engine, arch=arch)), ctx.catalog.toolkit)
    found = survey(ctx, plan)
    if dry_run:
        print_plan(ctx, plan, found, as_json=as_json)
        return
    if not found.there[GEMM.name]:
        check_room(ctx, found.needs, found.engine)
    program = build_program(ctx, lambda: ready_engine(ctx), plan, GEMM)
    measured = measure(ctx, plan, program)
    if as_json:
        print_json(document(plan, program, measured))
    else:
        print_measured(ctx.env, program, measured)
    with reported(as_json):
        judge(measured, program, require_gpu=require_gpu)
