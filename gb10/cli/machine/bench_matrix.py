"""``bench matrix``: every combination of a recipe's settings launched, measured and judged, unattended."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer

from gb10.cli.common import JsonOption, print_json, with_context
from gb10.cli.machine.bench_compare import OutOption
from gb10.cli.machine.bench_results import give_matrix, keep_bundle
from gb10.cli.machine.bench_sides import Starting, launcher_of, starting_of
from gb10.cli.machine.bench_target import Target, judged_targets
from gb10.cli.machine.load_options import plans
from gb10.cli.models.recipe_files import find_recipe, load_file, model_names
from gb10.cli.models.recipe_mods import added_options, mended_patches, mods_of
from gb10.cli.values import completer
from gb10.cli.verb import inject
from gb10.core.files import read_plain_file
from gb10.core.installation import ROOT
from gb10.errors import UsageError
from gb10.image.context import Context
from gb10.models.issue import errors_of
from gb10.models.lint.linting import lint
from gb10.models.lint.rule import load_rules
from gb10.models.load.known_keys import OURS
from gb10.models.load.model_recipe import ModelRecipe
from gb10.models.load.own_section import own_section
from gb10.serving.load.load_plan import Plan
from gb10.serving.trial.launch_journal import MakeLauncher, open_journal
from gb10.serving.trial.launcher import ENV
from gb10.serving.trial.matrix import (
    ARGS,
    IMAGE,
    VARIANT,
    MatrixFile,
    MatrixRow,
    drafting,
    drafts,
    read_matrix,
    rows_of,
    run_rows,
    without_effect,
)


def refusals(starting: Starting, rows: Sequence[MatrixRow]) -> dict[str, str]:
    """Why lint refuses a row, by its name; none for servers that no recipe starts. Raises UsageError."""
    if starting.recipe is None:
        return {}
    file, rules = find_recipe(starting.recipe), load_rules()
    recipe = load_file(file)
    mods = mods_of(recipe, file)
    judge = partial(lint, rules=rules, added=added_options(mods), mended=mended_patches(mods))
    found = {row.name: errors_of(judge(as_changed(recipe, starting, row.settings))) for row in rows}
    return {name: f"lint refuses it: {issues[0].code}: {issues[0].text}" for name, issues in found.items() if issues}


def as_changed(recipe: ModelRecipe, starting: Starting, settings: Mapping[str, str]) -> ModelRecipe:
    """The recipe with a row's settings in it. Pure."""
    variants = own_section(recipe).variants
    name = settings.get(VARIANT) or starting.wanted.request.variant or ""
    chosen = variants[name].overrides if name in variants else ()
    own = {key: value for key, value in settings.items() if key not in (ARGS, IMAGE, VARIANT)}
    changes = {**dict(chosen), **dict(starting.wanted.request.overrides), **own}
    image = settings.get(IMAGE) or starting.wanted.image or recipe.container
    command = f"{(recipe.command or '').rstrip()} {settings.get(ARGS, '')}".rstrip()
    env = {key.removeprefix(ENV): value for key, value in changes.items() if key.startswith(ENV)}
    section = recipe.values.get(OURS)
    defaults = {key: value for key, value in changes.items() if not key.startswith(ENV)}
    values = {
        **recipe.values,
        "defaults": {**recipe.defaults, **defaults},
        "env": {**recipe.env, **env},
        OURS: {**(section if isinstance(section, dict) else {}), "variants": {}},  # no row runs those that it names
        "command": command,
        "container": image,
    }
    return replace(recipe, values=values)


FOLDER: Final = "gb10-matrix-%Y%m%d-%H%M%S"
OWN: Final = ROOT / "recipes/bench/axes"
LARGEST: Final = 1 << 20
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
    matrix_file = _asked(ctx, what, starting.wanted.request.variant)
    if matrix_file.recipe or matrix_file.launch:
        starting = replace(
            starting, recipe=matrix_file.recipe or starting.recipe, launch=matrix_file.launch or starting.launch
        )
    found = _judged(ctx, starting, rows_of(matrix_file), skip=skip_refused)
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
    return launcher_of(ctx, starting, row.settings, "bench-row", folder / "logs")


def _asked(ctx: Context, what: str, variant: str | None) -> MatrixFile:
    """The matrix of a file, or the one of a recipe's engine, with its own way to draft. Raises UsageError."""
    path = Path(what)
    if path.is_file():
        text = read_plain_file(path, LARGEST).decode("utf-8", "replace")
        if any(line.startswith("axes:") for line in text.splitlines()):
            return read_matrix(text, what)
    recipe = load_file(find_recipe(what))
    engine = own_section(recipe).engine or recipe.text("runtime") or "unknown"
    own = OWN / f"{engine}.yaml"
    if not own.is_file():
        names = ", ".join(sorted(one.stem for one in OWN.glob("*.yaml")))
        raise UsageError(
            f"no axes for the engine {engine}", hint=f"there are some for {names}; or write a file of axes"
        )
    matrix_file = read_matrix(own.read_text(encoding="utf-8"), str(own.relative_to(ROOT)))
    variants = own_section(recipe).variants
    if variant in variants and drafts(variants[variant]):
        ctx.reporter.say(f"every row drafts, by the variant {variant}: no axis for that")
    axes = drafting(matrix_file.axes, variants, variant)
    lost = without_effect(axes, recipe.defaults)
    for (name, value), parameter in lost.items():
        ctx.reporter.say(f"no rows with {name}={value}: {recipe.name} has no parameter '{parameter}'")
    kept = {name: {key: one for key, one in axis.items() if (name, key) not in lost} for name, axis in axes.items()}
    return matrix_file.model_copy(update={"recipe": what, "axes": {name: axis for name, axis in kept.items() if axis}})


def _judged(ctx: Context, starting: Starting, rows: Sequence[MatrixRow], *, skip: bool) -> tuple[MatrixRow, ...]:
    """The rows; those that lint refuses are said, and left out when that is asked for."""
    refused = refusals(starting, rows)
    for why in dict.fromkeys(refused.values()):
        names = [name for name, one in refused.items() if one == why]
        ctx.reporter.say(f"{len(names)} of {len(rows)} rows, {names[0]}: {why}")
    return tuple(replace(row, left_out=row.left_out or (refused.get(row.name, "") if skip else "")) for row in rows)


def _list(rows: Sequence[MatrixRow], *, as_json: bool) -> None:
    if as_json:
        listed = [{"name": row.name, "settings": dict(row.settings), "left_out": row.left_out} for row in rows]
        print_json({"schema": "gb10/matrix-rows/v1", "rows": listed})
        return
    for row in rows:
        print(row.name + (f"  left out: {row.left_out}" if row.left_out else ""))
