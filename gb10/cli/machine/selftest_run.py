"""``selftest run``: steps with a budget, a result and evidence each; a folder with the report."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.table import Table

from gb10.cli.common import JsonOption, print_json, reported, with_context
from gb10.cli.models.options import GpusOption, NodesOption
from gb10.cli.verb import inject, print_table
from gb10.core.printing import printable
from gb10.errors import UncheckedError, VerifyError, interrupted
from gb10.image.context import Context
from gb10.serving.selftest.opening import able, open_scene
from gb10.serving.selftest.outcome import Report, Result, StepReport
from gb10.serving.selftest.scene import SelftestRequest
from gb10.serving.selftest.selftest_page import SIGNS
from gb10.serving.selftest.step_running import run_steps
from gb10.serving.selftest.step_table import QUICK, STEPS, WHOLE, Step, chosen, left_out, left_out_lines

FOLDER: Final = "gb10-selftest-%Y%m%d-%H%M%S"
SCHEMA: Final = "gb10/selftest-steps/v1"


def selftest_options(
    *,
    recipe: Annotated[
        str | None, typer.Option("--recipe", metavar="FILE|NAME", help="Serve by this model recipe.")
    ] = None,
    model: Annotated[
        Path | None, typer.Option("--model", metavar="DIR", help="Serve this model, which is here.")
    ] = None,
    launch: Annotated[
        str | None,
        typer.Option("--launch", metavar="COMMAND", help="Serve by this command; {port} is a free port."),
    ] = None,
    image: Annotated[
        str | None, typer.Option("--image", metavar="REF", help="The image to test. Default: one of ours that is here.")
    ] = None,
    python: Annotated[
        Path | None,
        typer.Option("--python", metavar="FILE", help="Run GPU programs by this Python, not in the image."),
    ] = None,
    libraries: Annotated[
        list[Path] | None,
        typer.Option("--libraries", metavar="DIR", help="With --python: where the engine's libraries are. Repeatable."),
    ] = None,
    gpus: GpusOption = True,
    nodes: NodesOption = None,
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="REF|KEY=VALUE…",
            help="Compare greedy answers with this image's, or under settings (env.NAME=VALUE).",
        ),
    ] = None,
    drafts: Annotated[
        str | None,
        typer.Option(
            "--drafts", metavar="WORDS", help="What turns drafts on in the engine's command. Default: n-grams."
        ),
    ] = None,
    most: Annotated[
        int, typer.Option("--most", metavar="N", min=1, max=256, help="The largest batch of the step batches.")
    ] = 32,
    download: Annotated[
        bool, typer.Option("--download", help="Let a missing image or missing weights be downloaded.")
    ] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer and shorter steps: at most 10 minutes.")] = False,
) -> SelftestRequest:
    """What is tested."""
    return SelftestRequest(
        image=image,
        python=python.absolute() if python else None,
        libraries=tuple(libraries or ()),
        gpus=gpus,
        model=model,
        recipe=recipe,
        launch=launch,
        nodes=nodes,
        against=against,
        drafts=drafts,
        most=most,
        download=download,
        quick=quick,
        wait=next(one for one in STEPS if one.id == "server").budget(quick=quick),
    )


@inject("asked", selftest_options, first=True)
@with_context
def run(
    *,
    ctx: Context,
    asked: SelftestRequest,
    steps: Annotated[list[str] | None, typer.Option("--step", metavar="ID", help="Only this step. Repeatable.")] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the steps, and run none.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Where the report and its evidence go.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="With --out: go on after a failure or a reboot.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say which steps would run; run none.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Run the steps that prove what gb10 says of a GB10.

    \b
    ./build.py selftest run                                   # machine, disk, and the image that is here
    ./build.py selftest run --quick --model models/mine       # also a server; at most 10 minutes
    ./build.py selftest run --step power --step limits        # these steps alone
    ./build.py selftest run --model models/mine --against gb10/vllm:OLD
    ./build.py selftest run --model models/mine --against env.GB10_CUTLASS_MOE=0
    ./build.py selftest run --recipe NAME --nodes @home       # over several nodes
    ./build.py selftest run --out report --resume             # after an interruption, with the same options
    ./build.py selftest run --launch 'vllm serve M --port {port}' --python .venv/bin/python3

    Each step has a budget; one that overruns is stopped. It "holds", "does not hold", or was "not checked", and why.
    On another GPU it measures what it can and says so. Nothing is downloaded unless --download says so, and services
    that run are not touched. The folder gets report.json (docs/schemas/selftest-v1.schema.json), report.html,
    report.txt to paste, and evidence. No host name, address, serial number, user or token is in them.

    Exit 9 when a step does not hold, 13 when one was not checked.
    """
    if listed:
        _print_steps(ctx, STEPS, asked, as_json=as_json)
        return
    folder = out or Path(time.strftime(FOLDER))
    if dry_run:
        _print_dry(ctx, asked, steps or (), folder, as_json=as_json)
        return
    try:
        report, document = _run(ctx, asked, steps or (), folder, resume=resume, show=None if as_json else _show)
    except KeyboardInterrupt:  # Typer's own sentence would say that the same command goes on
        raise SystemExit(interrupted(f"the same command with --out {folder} --resume goes on")) from None
    if as_json:
        print_json(document)
    else:
        print(printable(f"{report.counts}; {folder}/report.html"))
    with reported(as_json):
        _judge(report, folder)


def _run(
    ctx: Context,
    asked: SelftestRequest,
    names: Sequence[str],
    folder: Path,
    *,
    resume: bool,
    show: Callable[[StepReport], None] | None,
) -> tuple[Report, dict[str, Any]]:
    """The report, and report.json."""
    with open_scene(ctx, asked, folder, resume=resume) as scene:
        wanted = chosen(names, able(scene), quick=asked.quick, experts=scene.may_have_experts)
        unasked = left_out(wanted, able(scene), named=bool(names), quick=asked.quick)
        for line in () if names else left_out_lines(unasked):
            ctx.reporter.say(line)
        ctx.reporter.say(f"{len(wanted)} steps, at most {_minutes(wanted, asked)}; results: {folder}")
        report = run_steps(scene, wanted, quick=asked.quick, resume=resume, show=show, unasked=unasked)
        return report, scene.folder.write(report)


def _show(step: StepReport) -> None:
    outcome = step.outcome
    print(printable(f"{SIGNS[outcome.result]} {step.id:14} {step.seconds:6.1f} s  {outcome.why}"), flush=True)


def _judge(report: Report, folder: Path) -> None:
    """Raise VerifyError for a step that does not hold, UncheckedError for one that was not checked."""
    bad, unknown = report.of(Result.BROKEN), report.of(Result.UNCHECKED)
    if bad:
        where = "\n".join(f"{one.id}: {one.outcome.why}" for one in bad)
        raise VerifyError(f"{report.counts}", where=where, hint=f"the evidence: {folder}")
    if unknown:
        where = "\n".join(f"{one.id}: {one.outcome.why}" for one in unknown)
        raise UncheckedError(
            f"{report.counts}", where=where, hint="what is missing is named; --resume runs these again"
        )


def _minutes(steps: Sequence[Step], asked: SelftestRequest) -> str:
    return f"{sum(one.budget(quick=asked.quick) for one in steps) / 60:.0f} minutes"


def _rows(steps: Sequence[Step], asked: SelftestRequest) -> list[dict[str, Any]]:
    return [
        {
            "id": one.id,
            "title": one.title,
            "needs": one.need,
            "budget_s": one.budget_s,
            "quick_s": one.quick_s,
            "at_most_s": one.budget(quick=asked.quick),
        }
        for one in steps
    ]


def _print_steps(ctx: Context, steps: Sequence[Step], asked: SelftestRequest, *, as_json: bool) -> None:
    if as_json:
        most = QUICK if asked.quick else WHOLE
        print_json({"schema": SCHEMA, "steps": _rows(steps, asked), "at_most_s": most})
        return
    table = Table(box=None, pad_edge=False)
    for name in ("step", "needs", "at most", "quick", "what"):
        table.add_column(name, no_wrap=True, justify="right" if name in ("at most", "quick") else "left")
    for one in steps:
        table.add_row(
            one.id, one.need, f"{one.budget_s:.0f} s", f"{one.quick_s:.0f} s" if one.quick_s else "", one.title
        )
    print_table(ctx.env, table, least=110)


def _print_dry(ctx: Context, asked: SelftestRequest, names: Sequence[str], folder: Path, *, as_json: bool) -> None:
    """What would run, with what is here."""
    with open_scene(ctx, asked, None, resume=False) as scene:
        wanted = chosen(names, able(scene), quick=asked.quick, experts=scene.may_have_experts)
        unasked = left_out(wanted, able(scene), named=bool(names), quick=asked.quick)
        without = [] if names else left_out_lines(unasked)
    if as_json:
        print_json({"schema": SCHEMA, "steps": _rows(wanted, asked), "left_out": without, "here": scene.sizes})
        return
    _print_steps(ctx, wanted, asked, as_json=False)
    for line in (*scene.sizes, *without):
        print(printable(line))
    print(f"at most {_minutes(wanted, asked)}; the results would be in {folder}")
