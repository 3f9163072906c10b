"""``bench replay``: what a bundle measured, measured again here."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

import typer

from gb10.cli.common import JsonOption, with_context
from gb10.cli.machine.bench_compare import LaunchesOption, MarginOption, OutOption
from gb10.cli.machine.bench_results import give_compared, keep_bundle
from gb10.cli.machine.bench_sides import Starting, launcher_of, parameters_of, starting_of
from gb10.cli.machine.bench_target import ModelOption, TokenizerOption
from gb10.cli.verb import inject
from gb10.core.store import file_sha256
from gb10.errors import UsageError
from gb10.image.context import Context
from gb10.serving.trial.bench_bundle import Bundle, read_bundle
from gb10.serving.trial.compared import Unit
from gb10.serving.trial.launch_journal import MakeLauncher, launches_of, open_journal, run_and_record
from gb10.serving.trial.launch_line import Result
from gb10.serving.trial.launcher import running_already
from gb10.serving.trial.measuring import Measure
from gb10.serving.trial.replaying import chosen_side, compare_with_bundle, settings_of_side, text_of_side

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
    make = _running(url) if url else _started(ctx, starting, read, name, folder)
    measure = Measure(plan=read.plan, model=model, tokenizer=tokenizer, book=read.book)
    head = {"kind": "replay", "bundle": file_sha256(bundle), "side": name, "url": url, **measure.document}
    journal = open_journal(ctx, folder, head)
    # Launches that the folder has already are not run again.
    known = {one.number: one for one in launches_of(journal) if one.result is not Result.FAIL}
    for number in range(launches):
        if number not in known:
            with ctx.reporter.task(f"launch {number + 1} of {launches}"):
                known[number] = run_and_record(ctx, lambda: make, measure, journal, name="here", number=number)
    here = [known[number] for number in sorted(known)]
    keep_bundle(ctx, folder, measure.book, None)
    give_compared(ctx, compare_with_bundle(before, here, margin=margin / 100, unit=unit), folder, as_json=as_json)


def _running(url: str) -> MakeLauncher:
    launcher = running_already(url)
    return lambda journal, name: launcher


def _started(ctx: Context, starting: Starting, bundle: Bundle, side: str, folder: Path) -> MakeLauncher:
    """How servers are started here. Raises UsageError."""
    parameters = {**settings_of_side(bundle.head, side), **parameters_of(text_of_side(bundle.head, side))}
    if starting.recipe is None and starting.launch is None:
        starting = _of_bundle(ctx, starting, bundle, folder)
    elif parameters and not starting.wanted.trust:
        raise UsageError(
            "the bundle sets parameters of the server, and they are another's",
            where="\n".join(f"{name}={value}" for name, value in parameters.items())[:4000],
            hint="read them; then --trust uses them",
        )
    return launcher_of(ctx, starting, parameters, "bench-here", folder / "logs")


def _of_bundle(ctx: Context, starting: Starting, bundle: Bundle, folder: Path) -> Starting:
    """The command or the recipe that the bundle has; only when the user trusts it."""
    launch, recipe = bundle.head.get("launch"), bundle.recipe
    start_text = str(launch) if launch else recipe
    if start_text is None:
        raise UsageError("the bundle does not say how its server was started", hint="name a server: replay BUNDLE URL")
    if not starting.wanted.trust:
        raise UsageError(
            "the bundle says how to start its server, and that is another's command",
            where=start_text[:4000],
            hint="read it; then --trust starts it. Or start a server yourself: replay BUNDLE URL, --launch COMMAND",
        )
    if launch:
        return replace(starting, launch=str(launch), endpoint=str(bundle.head.get("endpoint") or starting.endpoint))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "recipe.yaml"
    path.write_text(start_text, encoding="utf-8")
    ctx.reporter.say(f"the recipe of the bundle: {path}")
    return replace(starting, recipe=str(path))
