"""``selftest import`` and ``selftest gate``: a report against the claims, to keep it or to let a release go on."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from gb10.cli.verb import JsonOption, print_json, with_reporter
from gb10.core.checked import counted, documents_of, rows_of
from gb10.core.installation import ROOT
from gb10.core.printing import printable
from gb10.core.reporter import Reporter
from gb10.serving.claims.claim_files import load_claims
from gb10.serving.claims.report_judging import PAGE, Judged, check_release, judge_report, keep_report
from gb10.serving.claims.selftest_report import read_report

ReportArgument = Annotated[Path, typer.Argument(metavar="REPORT", help="report.json of selftest.")]


@with_reporter
def import_report(
    *,
    report: ReportArgument,
    machine: Annotated[
        str | None, typer.Option("--machine", metavar="NAME", help="What the page calls the machine. Default: its GPU.")
    ] = None,
    as_json: JsonOption = False,
    reporter: Reporter,
) -> None:
    """Add a report to the claims, and print what held and fell.

    \b
    ./build.py selftest import gb10-selftest/report.json
    ./build.py selftest import report.json --machine 'Spark of a reader'

    A wrong value, an unknown claim or another chip is exit 2, and nothing is written. Else the report becomes
    one file below recipes/claims/reports, and docs/claims.md is made anew: send both as a pull request. A claim that
    fell is kept, too. The same report again changes nothing.
    """
    subjects = load_claims()
    read, sha256 = read_report(report, datetime.now(UTC))
    judged = judge_report(read, sha256, subjects, where=str(report), machine=machine)
    path = keep_report(ROOT, judged, subjects)
    _print(judged, as_json=as_json)
    where = f"{path.relative_to(ROOT)}, {PAGE}" if path else "the claims have this report"
    reporter.say(f"{_summary(judged)}; {where}")


@with_reporter
def gate(
    *,
    report: ReportArgument,
    image: Annotated[
        str, typer.Option("--image", metavar="DIGEST", help="sha256:… of the image that is to get its tag.")
    ],
    leave_out: Annotated[
        list[str] | None,
        typer.Option("--leave-out", metavar="STEP", help="A step that this machine cannot run; repeatable."),
    ] = None,
    as_json: JsonOption = False,
    reporter: Reporter,
) -> None:
    """Exit 0 only if a report lets an image get its moving tag.

    \b
    ./build.py selftest gate report.json --image sha256:DIGEST --leave-out nodes

    Exit 9 when the report is of another image, a claim fell, or a step does not hold. Exit 13 when a claim was not
    looked at whose step is not named by --leave-out. Nothing is written.
    """
    subjects = load_claims()
    read, sha256 = read_report(report, datetime.now(UTC))
    judged = judge_report(read, sha256, subjects, where=str(report))
    _print(judged, as_json=as_json)
    reporter.say(_summary(judged))
    check_release(judged, image=image, leave_out=leave_out or (), subjects=subjects)


def _print(judged: Judged, *, as_json: bool) -> None:
    kept = judged.kept
    if as_json:
        document = kept.model_dump(mode="json", exclude_none=True)
        broken = [{"step": step, "why": why} for step, why in judged.broken]
        print_json(
            {
                "schema": "gb10/claims/v1",
                **document,
                "broken": broken,
                "unchecked": documents_of(judged.unchecked),
                "beside": judged.beside,
            }
        )
        return
    for identity, result in kept.results.items():
        print(printable(f"{result.came:8}  {identity}: {result.value}{f' {result.unit}' if result.unit else ''}"))
    for step, why in judged.broken:
        print(printable(f"fell      step {step}: {why}"))
    for row in rows_of(judged.unchecked):
        print(row)


def _summary(judged: Judged) -> str:
    came = [result.came for result in judged.kept.results.values()]
    counts = ", ".join(f"{came.count(one)} {one}" for one in ("held", "fell", "recorded"))
    beside = f", {len(judged.beside)} figures without a claim" if judged.beside else ""
    return f"{counts}{counted(judged.unchecked)}{beside}"
