"""``moe seed``: files with the engine's own default rows, and others only where those do not fit a GB10."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from gb10.cli.common import JsonOption, print_json, with_context
from gb10.cli.look.moe_show import (
    BlockOption,
    DtypeOption,
    ExpertsOption,
    GroupOption,
    HiddenOption,
    PerChannelOption,
    ReleaseOption,
    TopkOption,
    TritonOption,
    WidthOption,
    judge_for_release,
    shape_from_options,
)
from gb10.cli.values import EngineOption
from gb10.errors import UsageError
from gb10.image.context import Context
from gb10.image.moe.release_lookups import Judge
from gb10.image.moe.seeding import ABOUT, MOST, Model, Seed, about, check_read, folder_of, make_seed
from gb10.image.plan.catalog import DEFAULT_ENGINE

OutArgument = Annotated[Path, typer.Argument(metavar="DIR", help="The directory that the engine's variable will name.")]
AlwaysOption = Annotated[bool, typer.Option("--always", help="Write the file even when every default fits.")]
DownOption = Annotated[bool, typer.Option("--down", help="Write SGLang's second file, `_down`, too.")]


@with_context
def seed(
    *,
    ctx: Context,
    out: OutArgument,
    engine: EngineOption = DEFAULT_ENGINE,
    release: ReleaseOption = None,
    triton: TritonOption = None,
    experts: ExpertsOption,
    width: WidthOption,
    hidden: HiddenOption = 4096,
    topk: TopkOption = 8,
    dtype: DtypeOption = "fp8_w8a8",
    block: BlockOption = None,
    per_channel: PerChannelOption = False,
    group_size: GroupOption = 128,
    down: DownOption = False,
    always: AlwaysOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write the engine's own rows, others where those do not fit.

    \b
    ./build.py moe seed ~/tuned --engine sglang --release 0.5.10 --experts 161 --width 384
    ./build.py moe seed ~/tuned --experts 288 --width 512 --block 128x128   # nothing to do: every default fits

    Safe, not fast: no row was measured. Give no file to an engine whose defaults fit. docs/moe.md says when.
    """
    model = Model(
        meant=shape_from_options(experts, width, dtype, block, per_channel=per_channel),
        hidden=hidden,
        topk=topk,
        group=group_size,
    )
    judge, later = judge_for_release(ctx, engine, release, triton), judge_for_release(ctx, engine, None, None)
    with ctx.reporter.task("the engine's own defaults"), ctx.store.folder("moe") as work:
        made = make_seed(judge, later, model, work)
        if made.needed or always:
            check_read(judge, model, made, work / "written")
    written = _write(judge, later, model, made, out, down=down) if made.needed or always else []
    print_json(_document(judge, made, written)) if as_json else _print(judge, made, written)


def _write(judge: Judge, later: Judge, model: Model, made: Seed, out: Path, *, down: bool) -> list[str]:
    if down and judge.engine != "sglang":
        raise UsageError("--down is for SGLang: vLLM has one file for both GEMMs")
    folder = folder_of(judge, out)
    names = [made.name, made.name.replace(".json", "_down.json")] if down else [made.name]
    existing = [name for name in names if (folder / name).exists() and (folder / name).read_text() != made.text]
    if existing:
        raise UsageError(f"{folder / existing[0]} exists with other rows", hint="name another directory, or remove it")
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text(made.text, encoding="ascii")
        (folder / f"{name}{ABOUT}").write_text(about(judge, later, model, replace(made, name=name)), encoding="utf-8")
    return [str(folder / name) for name in names]


def _document(judge: Judge, made: Seed, written: list[str]) -> dict[str, Any]:
    return {
        "schema": "gb10/moe-seed/v1",
        "engine": judge.engine,
        "version": judge.version,
        "name": made.name,
        "needed": made.needed,
        "triton": judge.triton,
        "triton_compiles": judge.compiles,
        "differing": made.differing,
        "rows": {str(size): dict(row) for size, row in made.rows.items()},
        "replaced": [[span.first, span.last, span.shared] for span in made.spans if not span.is_default],
        "written": written,
    }


def _print(judge: Judge, made: Seed, written: list[str]) -> None:
    print(made.name)
    for span in made.spans:
        if not span.is_default:
            print(f"  batch {span.first} to {span.last}: the default needs {span.shared:,} bytes; replaced")
    print(f"  differs from the defaults in {made.differing} rows that fit (batch 1 to {MOST:,})")
    if not made.needed:
        print(f"  every default of {judge.engine} {judge.version} fits: no file is needed")
    if not judge.compiles:
        print(f"  note: Triton {judge.triton}, which it requires, does not compile for a GB10: name yours by --triton")
    for path in written:
        print(f"  wrote {path}: safe, not measured")
