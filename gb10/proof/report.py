"""A verdict for people (a table) and for programs (a document, schema gb10/verify/v1). Pure."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from gb10.proof.claims import Problem, counted
from gb10.proof.fit import MEANING, UNIT_FITS, Fit, Judged, Verdict

SCHEMA = "gb10/verify/v1"
STYLES = {Fit.NATIVE: "green", Fit.FAMILY: "green", Fit.PTX: "yellow", Fit.NOTHING: "red", Fit.DAMAGED: "bold red"}


def render_table(verdict: Verdict) -> RenderableType:
    """Every binary with GPU code, a damaged one too, then the counts; units are about one per translation unit."""
    table = Table(title=escape(f"GPU code of {verdict.root} on {verdict.arch.capability}"), title_justify="left")
    table.add_column("file", overflow="fold")
    table.add_column("best fit")
    for fit in UNIT_FITS:
        table.add_column(f"{fit}\nunits", justify="right")
    table.add_column("holds", overflow="fold")
    for judged in verdict.judged:
        if judged.fit is not Fit.NONE:
            table.add_row(*_row(judged))
    return Group(table, render_summary(verdict)) if table.row_count else render_summary(verdict)


def render_summary(verdict: Verdict) -> Text:
    """One line per fit that occurs."""
    lines = [f"{count:6}  {fit:10}  {MEANING[fit]}" for fit, count in verdict.counts.items() if count]
    return Text("\n".join(lines) or "no ELF, fatbin or cubin")


def _row(judged: Judged) -> list[str | Text]:
    fits = [str(judged.units[fit] or "") for fit in UNIT_FITS]
    holds = judged.binary.error or counted(judged.binary.codes)
    return [Text(judged.binary.path), Text(judged.fit, STYLES.get(judged.fit, "")), *fits, Text(holds)]


def document(verdict: Verdict, problems: Sequence[Problem] = ()) -> dict[str, Any]:
    """The verdict as data: counts of files by best fit, each binary with its codes and units, and the problems."""
    return {
        "schema": SCHEMA,
        "root": verdict.root,
        "arch": str(verdict.arch),
        "counts": {str(fit): count for fit, count in verdict.counts.items()},
        "binaries": [_entry(judged) for judged in verdict.judged],
        "problems": [asdict(problem) for problem in problems],
    }


def _entry(judged: Judged) -> dict[str, Any]:
    binary = {name: value for name, value in asdict(judged.binary).items() if name != "units"}
    units = {str(fit): count for fit, count in judged.units.items()}
    return {**binary, "fit": str(judged.fit), "codes": judged.binary.codes, "units": units}
