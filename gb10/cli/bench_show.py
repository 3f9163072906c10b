"""How a benchmark is shown: a table beside what others published, or one document."""

from collections.abc import Mapping

from rich.table import Table

from gb10.cli.tables import print_table
from gb10.image.gemm.measure import Measured
from gb10.image.gemm.program_build import BuiltProgram, Line
from gb10.image.gemm.published_gemms import UNNAMED, published_gemms
from gb10.image.plan.values import Plan


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
