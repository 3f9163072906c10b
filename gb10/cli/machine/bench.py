"""``bench``: time servers, compare them and judge their answers; check and time our kernels on a GPU."""

from collections.abc import Mapping
from typing import Annotated, Final

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
from gb10.errors import VerifyError
from gb10.image.build.cache_status import check_cache
from gb10.image.build.estimate import check_disk_and_memory
from gb10.image.build.stage import ready_engine
from gb10.image.context import Context
from gb10.image.gemm.gemm_benchmarks import (
    UNNAMED,
    BuiltProgram,
    Line,
    Measured,
    build_program,
    judge,
    measure,
    published_gemms,
)
from gb10.image.gemm.ncu_profile import (
    COMPUTE,
    HITS,
    MEMORY,
    NEEDS,
    TENSOR,
    TIME,
    TRAFFIC,
    WARPS,
    Profiled,
    find_ncu,
    profile,
)
from gb10.image.plan.catalog import DEFAULT_ENGINE
from gb10.image.plan.dag import GEMM, plan_program
from gb10.image.plan.values import Plan
from gb10.image.request.planning import Request, make_plan

SHARES: Final = (TENSOR, COMPUTE, MEMORY, HITS, WARPS)
"""Percentages of a profile, in the order of its columns; the last one is set apart."""


def print_measured(
    env: Mapping[str, str], program: BuiltProgram, measured: Measured, seen: Profiled | None = None
) -> None:
    """The checks in a line, then the times and the profile; without times, the reason and the program's path."""
    print_table(env, sizes_table(measured))
    right = len(measured.checks) - len(measured.wrong)
    print(f"{right} of {len(measured.checks)} checks passed")
    if measured.why_not:
        print(f"not run on a GPU: {measured.why_not}")
        print(f"program: {program.path}")
    else:
        print_table(env, times_table(measured))
    if seen is not None:
        print_table(env, profile_table(seen), least=120)
        print(f"report: {seen.report}: ncu-ui opens it")
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


def profile_table(seen: Profiled) -> Table:
    """Every kernel on every shape by the GPU's counters; blank where a counter is missing."""
    table = Table(box=None, pad_edge=False)
    moved_of = "MB" if TRAFFIC["12.0"].keys() <= set(seen.metrics) else "MB read"
    heads = ("shape", "kernel", "ms", "tensor", "compute", "memory", "L2 hits", moved_of, "GB/s", "warps")
    for name in heads:
        table.add_column(name, no_wrap=True, justify="left" if name in ("shape", "kernel") else "right")
    for one in seen.shapes:
        ns, moved = one.values[TIME], one.memory_bytes
        shares = [f"{value:.0f} %" if (value := one.values[name]) is not None else "" for name in SHARES]
        traffic = f"{moved / 1e6:,.1f}" if moved is not None else ""
        rate = f"{moved / ns:,.1f}" if moved is not None and ns else ""  # bytes a nanosecond
        table.add_row(one.shape, one.kernel, f"{ns / 1e6:.3f}" if ns else "", *shares[:-1], traffic, rate, shares[-1])
    return table


def document(plan: Plan, program: BuiltProgram, measured: Measured, seen: Profiled | None = None) -> dict[str, object]:
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
        "profile": _profile(seen) if seen else None,
    }


def _profile(seen: Profiled) -> dict[str, object]:
    shapes = [
        {"kernel": one.kernel, "shape": one.shape, "memory_bytes": one.memory_bytes, "values": dict(one.values)}
        for one in seen.shapes
    ]
    return {"ncu": seen.ncu, "report": str(seen.report), "metrics": list(seen.metrics), "shapes": shapes}


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
    profiled: Annotated[
        bool, typer.Option("--profile", help="Run it again under Nsight Compute (ncu): what limits each kernel.")
    ] = False,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Check and time CUTLASS GEMMs in FP8 and NVFP4.

    \b
    ./build.py bench gemm                    # compile, check, time
    ./build.py bench gemm --require-gpu      # exit 9 when there is no GPU
    ./build.py bench gemm --profile          # then ask Nsight Compute what limits each kernel (docs/profile.md)

    Dense 4096x14336x4096, and grouped shapes of experts. The program is compiled by the lock's compilers, without a
    network, from the patched CUTLASS of the recipe. The store keeps it; it needs only the driver. Without a GPU of the
    arch, the command checks the rest (shared memory, instructions and formats) and prints the program's path.

    Each result is compared with the simplest kernel before anything is timed; exit 9 when one is wrong. A time is the
    median of 20 runs. The peak is 500 TFLOPS (FP4, dense) of a GB10; for another GPU the table omits it.
    """
    ncu = find_ncu(ctx.env) if profiled and not dry_run else None
    plan = plan_program(GEMM, make_plan(ctx, Request(engine=engine, arch=arch)), ctx.catalog.toolkit)
    found = check_cache(ctx, plan)
    if dry_run:
        print_plan(ctx, plan, found, as_json=as_json)
        return
    if not found.cached[GEMM.name]:
        check_disk_and_memory(ctx, found.needs, found.engine)
    program = build_program(ctx, lambda: ready_engine(ctx), plan, GEMM)
    measured = measure(ctx, plan, program)
    seen = profile(ctx, ncu, program, measured) if ncu and measured.gpu and not measured.wrong else None
    if as_json:
        print_json(document(plan, program, measured, seen))
    else:
        print_measured(ctx.env, program, measured, seen)
    with reported(as_json):
        judge(measured, program, require_gpu=require_gpu)
        if ncu and seen is None:
            raise VerifyError(f"nothing of {program.name} was profiled", where=measured.why_not, hint=NEEDS)
