"""A verdict for people (a table) and for programs (a document, schema gb10/verify/v1). Pure."""

from collections.abc import Collection, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from gb10.core.printing import printable
from gb10.errors import UsageError
from gb10.image.proof.arch_match import MEANING, UNIT_FITS, Judged, Verdict
from gb10.image.proof.check import counted
from gb10.image.proof.checking import Finding, of_severity
from gb10.image.proof.reading import CODE, MANY
from gb10.image.recipe.arch import parse_arch
from gb10.inside.scan.binary import Binary, Unit
from gb10.inside.scan.code_fit import Fit

SCHEMA = "gb10/verify/v1"
NAMED, MOST = (Fit.NOTHING, Fit.DAMAGED), 12
STYLES = {Fit.NATIVE: "green", Fit.FAMILY: "green", Fit.PTX: "yellow", Fit.NOTHING: "red", Fit.DAMAGED: "bold red"}


def render_table(verdict: Verdict, shown: Collection[Fit] = tuple(Fit)) -> RenderableType:
    """Every binary with GPU code, a damaged one too, then the counts; units are about one per translation unit."""
    table = Table(
        title=escape(f"GPU code of {printable(verdict.root)} on {verdict.arch.capability}"), title_justify="left"
    )
    table.add_column("file", overflow="fold")
    table.add_column("best fit")
    for fit in UNIT_FITS:
        table.add_column(f"{fit}\nunits", justify="right")
    table.add_column("holds", overflow="fold")
    for judged in binaries_to_list(verdict, shown):
        table.add_row(*_row(judged))
    return Group(table, render_summary(verdict)) if table.row_count else render_summary(verdict)


def render_rows(verdict: Verdict, shown: Collection[Fit] = tuple(Fit)) -> list[str]:
    """The same as plain lines with whole paths, for a pipe, ``grep`` and ``awk``."""
    return [f"{one.fit:10}  {printable(one.binary.path)}  {_holds(one)}" for one in binaries_to_list(verdict, shown)]


def binaries_to_list(verdict: Verdict, shown: Collection[Fit]) -> list[Judged]:
    """The binaries to list: of these fits, and without GPU code only when that is all that is wanted."""
    return [one for one in verdict.judged if one.fit in shown and (one.fit is not Fit.NONE or {*shown} == {Fit.NONE})]


def _holds(judged: Judged) -> str:
    return printable(judged.binary.error or counted(judged.binary.codes) or "-")


def render_summary(verdict: Verdict) -> Text:
    """One line per fit that occurs, with the names of the files that need a look."""
    lines = [
        f"{count:6}  {fit:10}  {MEANING[fit]}{_names(verdict, fit)}" for fit, count in verdict.counts.items() if count
    ]
    return Text("\n".join(lines) or "no ELF, fatbin or cubin")


def _names(verdict: Verdict, fit: Fit) -> str:
    """The first files of a fit that no GPU of the arch can use."""
    if fit not in NAMED:
        return ""
    names = [judged.binary.path.rpartition("/")[2] for judged in verdict.judged if judged.fit is fit]
    more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
    return f": {printable(', '.join(names[:MOST]))}{more}"


def _row(judged: Judged) -> list[str | Text]:
    fits = [str(judged.units[fit] or "") for fit in UNIT_FITS]
    return [
        Text(printable(judged.binary.path)),
        Text(judged.fit, STYLES.get(judged.fit, "")),
        *fits,
        Text(_holds(judged)),
    ]


def document(verdict: Verdict, found: Sequence[Finding] = (), shown: Collection[Fit] = tuple(Fit)) -> dict[str, Any]:
    """The verdict as data: counts of files by best fit, each binary with its codes and units, problems and notes."""
    return {
        "schema": SCHEMA,
        "root": verdict.root,
        "arch": str(verdict.arch),
        "counts": {str(fit): count for fit, count in verdict.counts.items()},
        "binaries": [_entry(judged) for judged in verdict.judged if judged.fit in shown],
        "problems": _rows(of_severity(found, "error")),
        "notes": _rows(of_severity(found, "note")),
    }


def _rows(found: Sequence[Finding]) -> list[dict[str, str]]:
    return [{"check": check.name, **asdict(problem)} for check, problem in found]


def _entry(judged: Judged) -> dict[str, Any]:
    binary = {name: value for name, value in asdict(judged.binary).items() if name != "units"}
    units = {str(fit): count for fit, count in judged.units.items()}
    return {**binary, "fit": str(judged.fit), "codes": judged.binary.codes, "units": units}


MOST_BINARIES = 1 << 16
"""Binaries of a document."""


def read_verdict(document: Any) -> Verdict | None:  # noqa: ANN401 - whatever JSON holds
    """The verdict of a document of `verify --json`; None for another document."""
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        return None
    try:
        rows = document["binaries"][:MOST_BINARIES]
        return Verdict(arch=parse_arch(document["arch"]), root=str(document["root"]), judged=tuple(map(_judged, rows)))
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError, UsageError):
        return None


def _judged(row: dict[str, Any]) -> Judged:
    codes = {str(code): int(count) for code, count in row["codes"].items()}
    if not all(CODE.fullmatch(code) and 0 < count < MANY for code, count in codes.items()):
        raise ValueError(codes)
    binary = Binary(
        path=str(row["path"]),
        kind=str(row["kind"]),
        size=int(row["size"]),
        units=(Unit(codes=codes, count=1),) if codes else (),
        error=str(row.get("error", "")),
    )
    units = {fit: int(row["units"].get(str(fit), 0)) for fit in UNIT_FITS}
    return Judged(binary=binary, fit=Fit(row["fit"]), units=units)
