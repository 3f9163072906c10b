"""``bench matrix``: every combination of a recipe's settings launched, measured and judged, unattended."""

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer

from gb10.cli.common import JsonOption, print_json, with_context
from gb10.cli.machine.bench_compare import OutOption
from gb10.cli.machine.bench_results import give_matrix, keep_bundle
from gb10.cli.machine.bench_sides import starting_of
from gb10.cli.machine.bench_target import Target, judged_targets
from gb10.cli.machine.load_options import plans
from gb10.cli.values import completer
from gb10.cli.verb import inject
from gb10.image.context import Context
from gb10.models.registries.recipe_file import model_names
from gb10.serving.benchmark.launch_journal import open_journal
from gb10.serving.benchmark.launcher import MakeLauncher, Starting
from gb10.serving.benchmark.matrix import MatrixRow, judged_rows, matrix_of, rows_of, run_rows
from gb10.serving.load_generator.load_plan import Plan

FOLDER: Final = "gb10-matrix-%Y%m%d-%H%M%S"
WhatArgument = Annotated[
    str,
    typer.Argument(
        metavar="RECIPE|FILE", autocompletion=completer(model_names), help="A model recipe, or a file with axes."
    ),
]
SkipOption = Annotated[bool, typer.Option("--skip-refused", help="Leave out the rows that `recipe lint` refuses.")]
RetryOption = Annotated[bool, typer.Option("--retry", help="With --out: run the rows again that were not stable.")]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="List the rows and what lint says of them; start nothing.")
]


@inject("starting", starting_of, first=True)
@plans
@with_context
@judged_targets
def matrix(
    *,
    what: WhatArgument,
    ctx: Context,
    plan: Plan,
    starting: Starting,
    target: Target,
    skip_refused: SkipOption = False,
    retry: RetryOption = False,
    out: OutOption = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Launch and judge every combination of settings, unattended.

    \b
    ./build.py bench matrix qwen3.5-397b-nvfp4-sglang --nodes a,b,c,d --dry-run # what would run
    ./build.py bench matrix qwen3.5-397b-nvfp4-sglang --nodes a,b,c,d --out m   # run it, or go on
    ./build.py bench matrix axes.yaml --launch 'llama-server -m M --port {port} {args}'

    The axes of a recipe are its engine's (recipes/bench/axes): MoE backend, attention, FP4 GEMM, graphs, drafts. A
    file has axes of your own (docs/bench.md). A row is STABLE, FAIL or GARBAGE, with the line of the server's log that
    tells why. After an interruption run the same command with the same --out. Exit 9 when no row is stable.
    """
    plan.of_one_length("bench matrix")
    matrix_file = matrix_of(ctx, what, starting.request.render.variant)
    if matrix_file.recipe or matrix_file.launch:
        starting = replace(
            starting, recipe=matrix_file.recipe or starting.recipe, launch=matrix_file.launch or starting.launch
        )
    found = judged_rows(ctx, starting, rows_of(matrix_file), skip=skip_refused)
    if dry_run:
        _list(found, as_json=as_json)
        return
    folder = out or Path(time.strftime(FOLDER))
    measure = target.measure(ctx, plan)
    head = {"kind": "matrix", "matrix": matrix_file.model_dump(mode="json"), **starting.document, **measure.document}
    journal = open_journal(ctx, folder, head)
    make = partial(_launcher, ctx, starting, folder)
    done = run_rows(ctx, found, make, measure, journal, retry=retry)
    keep_bundle(ctx, folder, measure.book, starting.recipe)
    give_matrix(ctx, done, head, folder, as_json=as_json)


def _launcher(ctx: Context, starting: Starting, folder: Path, row: MatrixRow) -> MakeLauncher:
    return starting.launcher(ctx, row.settings, "bench-row", folder / "logs")


def _list(rows: Sequence[MatrixRow], *, as_json: bool) -> None:
    if as_json:
        listed = [{"name": row.name, "settings": dict(row.settings), "left_out": row.left_out} for row in rows]
        print_json({"schema": "gb10/matrix-rows/v1", "rows": listed})
        return
    for row in rows:
        print(row.name + (f"  left out: {row.left_out}" if row.left_out else ""))
