"""``bench``: time servers, compare them and judge their answers; check and time our kernels on a GPU."""

from collections.abc import Mapping
from typing import Annotated

import typer
from rich.table import Table

from gb10.cli.build.plan_show import print_plan
from gb10.cli.common import DryRunOption, JsonOption, print_json, reported, verb_app, with_context
from gb10.cli.machine.bench_compare import compare
from gb10.cli.machine.bench_guard import guard
from gb10.cli.machine.bench_matrix import matrix
from gb10.cli.machine.bench_quality import quality
from gb10.cli.machine.bench_replay import replay
from gb10.cli.machine.bench_serve import serve
from gb10.cli.machine.bench_show import show
from gb10.cli.values import ArchOption, EngineOption
from gb10.cli.verb import print_table
from gb10.image.build.estimate import check_disk_and_memory
from gb10.image.build.image_build import check_cache
from gb10.image.build.stage import ready_engine
from gb10.image.context import Context
from gb10.image.gemm import UNNAMED, BuiltProgram, Line, Measured, build_program, judge, measure, published_gemms
from gb10.image.plan.catalog import DEFAULT_ENGINE
from gb10.image.plan.dag import GEMM, plan_program
from gb10.image.plan.values import Plan
from gb10.image.request.planning import Request, make_plan


def print_measured(env: Mapping[str, str], program: BuiltProgram, measured: Measured) -> None:
    """The checks in a line, then the times; without times, the reason and the program's path."""
    print_table(env, sizes_table(measured))
    right = len(measured.checks) - len(measured.wrong)
    print(f"{right} of {len(measured.checks)} checks passed")
    if measured.why_not:
        print(f"not run on a GPU: {measured.why_not}")
        print(f"program: {program.path}")
    else:
        print_table(env, times_table(measured))
    print_published()


def print_published() -> None:
    """What others published, with the format that they named."""
    found = published_gemms()
    print("published for a GB10, kernels tuned by hand, TFLOPS:")
    for one in found.figures:
        print(f"  {one.tflops:g}  {one.format.upper() if one.format else UNNAMED}: {one.what}")
    print(f"  source: {found.title}, {found.source}")


def sizes_table(measured: Measured) -> Table:
    """The shared memory of a block that every kernel uses."""
    table = Table(box=None, pad_edge=False)
    for name in ("kernel", "bytes", "of", "stages", "threads", "result"):
        table.add_column(name, no_wrap=True, justify="left" if name in ("kernel", "result") else "right")
    errors = {line["kernel"]: line for line in measured.checks if line["kind"] == "result"}
    for line in measured.checks:
        if line["kind"] == "size":
            found = errors.get(line["kernel"])
            table.add_row(
                line["kernel"],
                f"{line['bytes']:,}",
                f"{line['limit']:,}",
                str(line["stages"]),
                str(line["threads"]),
                _result(found),
            )
    return table


def _result(line: Line | None) -> str:
    if line is None:
        return "not run"
    return f"{'right' if line['ok'] else 'WRONG'}, error {line['error']:.1e} {line['said']}".rstrip()


def times_table(measured: Measured) -> Table:
    """Every kernel on every shape."""
    gpu = measured.gpu or {}
    title = f"{gpu.get('name')}, {gpu.get('multiprocessors')} multiprocessors, {gpu.get('capability')}"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for name in ("shape", "kernel", "ms", "TFLOPS", "of 500", "published", "of that"):
        table.add_column(name, no_wrap=True, justify="left" if name in ("shape", "kernel") else "right")
    for line in sorted(measured.times, key=lambda line: line["experts"] > 1):
        table.add_row(line["shape"], line["kernel"], f"{line['ms']:.3f}", f"{line['tflops']:.1f}", *_against(line))
    return table


def _against(line: Line) -> tuple[str, str, str]:
    """The share of the peak, the published figure, and the share of that; blank when unknown."""
    peak = f"{line['of_peak']:.0%}" if line["of_peak"] is not None else ""
    published = published_gemms().beside(line)
    return (peak, f"{published:g}", f"{line['tflops'] / published:.0%}") if published else (peak, "", "")


def document(plan: Plan, program: BuiltProgram, measured: Measured) -> dict[str, object]:
    """A benchmark as data."""
    return {
        "schema": "gb10/bench/v1",
        "name": program.name,
        "arch": str(plan.options.arch),
        "platform": plan.options.platform,
        "key": program.key,
        "path": str(program.path),
        "hit": program.hit,
        "gpu": measured.gpu,
        "not_run": measured.why_not,
        "published": published_gemms().model_dump(mode="json"),
        "checks": list(measured.checks),
        "times": [{**line, "published": published_gemms().beside(line)} for line in measured.times],
    }


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
    found = check_cache(ctx, plan)
    if dry_run:
        print_plan(ctx, plan, found, as_json=as_json)
        return
    if not found.cached[GEMM.name]:
        check_disk_and_memory(ctx, found.needs, found.engine)
    program = build_program(ctx, lambda: ready_engine(ctx), plan, GEMM)
    measured = measure(ctx, plan, program)
    if as_json:
        print_json(document(plan, program, measured))
    else:
        print_measured(ctx.env, program, measured)
    with reported(as_json):
        judge(measured, program, require_gpu=require_gpu)
