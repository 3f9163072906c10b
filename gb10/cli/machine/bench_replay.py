"""``bench replay``: what a bundle measured, measured again here."""

import time
from pathlib import Path
from typing import Annotated, Final

import typer

from gb10.cli.common import JsonOption, with_context
from gb10.cli.machine.bench_compare import LaunchesOption, MarginOption, OutOption
from gb10.cli.machine.bench_results import give_compared, keep_bundle
from gb10.cli.machine.bench_sides import starting_of
from gb10.cli.machine.bench_target import ModelOption, TokenizerOption
from gb10.cli.verb import inject
from gb10.core.store import file_sha256
from gb10.image.context import Context
from gb10.serving.benchmark.bench_bundle import read_bundle
from gb10.serving.benchmark.compared import Unit
from gb10.serving.benchmark.launch_journal import open_journal
from gb10.serving.benchmark.launcher import Starting
from gb10.serving.benchmark.measuring import Measure
from gb10.serving.benchmark.replaying import (
    chosen_side,
    compare_with_bundle,
    launcher_of_url,
    measured_here,
    started_as_bundle,
)

FOLDER: Final = "gb10-replay-%Y%m%d-%H%M%S"
BundleArgument = Annotated[Path, typer.Argument(metavar="BUNDLE", help="bundle.zip of bench compare, matrix or serve.")]
UrlArgument = Annotated[str | None, typer.Argument(metavar="[URL]", help="A server that runs. Default: start one.")]
SideOption = Annotated[str | None, typer.Option("--side", metavar="NAME", help="A or B, or a row of a matrix.")]


@with_context
@inject("starting", starting_of, first=True)
def replay(
    *,
    bundle: BundleArgument,
    url: UrlArgument = None,
    ctx: Context,
    starting: Starting,
    side: SideOption = None,
    launches: LaunchesOption = 5,
    margin: MarginOption = 2.0,
    model: ModelOption = None,
    tokenizer: TokenizerOption = None,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure again what a bundle measured, and compare.

    \b
    ./build.py bench replay bundle.zip http://spark-1:8000          # a server that runs
    ./build.py bench replay bundle.zip --side B --launch 'vllm serve M --port {port}'
    ./build.py bench replay bundle.zip --side A --trust             # start what the bundle says

    The verdict is same, faster, slower or not resolved. The load and the book are the bundle's; each of its files must
    have the sha256 that it names. What the bundle says about starting a server is another's command: it is printed,
    and run only with --trust.
    """
    read = read_bundle(bundle)
    name, before = chosen_side(read, side)
    folder = out or Path(time.strftime(FOLDER))
    unit: Unit = "launches" if url is None else "passes"
    make = launcher_of_url(url) if url else started_as_bundle(ctx, starting, read, name, folder)
    measure = Measure(plan=read.plan, model=model, tokenizer=tokenizer, book=read.book)
    head = {"kind": "replay", "bundle": file_sha256(bundle), "side": name, "url": url, **measure.document}
    journal = open_journal(ctx, folder, head)
    here = measured_here(ctx, make, measure, journal, launches)
    keep_bundle(ctx, folder, measure.book, None)
    give_compared(ctx, compare_with_bundle(before, here, margin=margin / 100, unit=unit), folder, as_json=as_json)
