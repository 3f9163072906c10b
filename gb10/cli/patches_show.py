"""Prints patches and their outcomes."""

from collections.abc import Collection, Iterable, Sequence

from packaging.version import Version
from rich.table import Table

from gb10.cli.common import print_json
from gb10.cli.tables import print_table
from gb10.core.reporter import terminal
from gb10.image.context import Context
from gb10.patches.series import Patch
from gb10.patches.status import Row, find_patches, outcome_of

SHORT = {"not-applicable": "-"}
LEGEND = "-  not-applicable: the release is outside the patch's range"
STYLES = {
    "applies": "green",
    "not-applicable": "dim",
    "already-upstream": "yellow",
    "superseded": "yellow",
    "conflict": "bold red",
    "unknown-shape": "bold red",
}


def print_rows(ctx: Context, rows: Sequence[Row], idle: Collection[str] = ()) -> None:
    """A table per source (a line per release, a column per patch), then every reason once.

    ``idle`` are sources that are compiled only with ``--targets``.
    """
    console = terminal(ctx.env, stderr=False)
    for source in dict.fromkeys(row.source for row in rows):
        own = [row for row in rows if row.source == source]
        ids = list(dict.fromkeys(verdict.patch.id for row in own for verdict in row.verdicts))
        table = Table(title=source, title_justify="left", box=None, pad_edge=False)
        table.add_column("release", no_wrap=True, min_width=max(len(str(row.version)) for row in own))
        for name in ids:
            table.add_column(name[:4], no_wrap=True)
        for row in own:
            table.add_row(str(row.version), *(_cell(row, name) for name in ids))
        print_table(ctx.env, table)
        if any(outcome_of(verdict) in SHORT for row in own for verdict in row.verdicts):
            print(LEGEND)
        for name in ids:
            ranges = dict.fromkeys(range_of(patch) for patch in find_patches(ctx.catalog.patches, f"{source}/{name}"))
            console.print(f"\n{name}  {' or '.join(ranges)}", style="bold", soft_wrap=True)
            for line in reasons(own, name, idle):
                console.print(f"  {line}", soft_wrap=True, highlight=False, markup=False)
        console.print()


def _cell(row: Row, name: str) -> str:
    verdict = next((verdict for verdict in row.verdicts if verdict.patch.id == name), None)
    if verdict is None:
        return ""
    outcome = outcome_of(verdict)
    return f"[{STYLES.get(outcome, 'bold red')}]{SHORT.get(outcome, outcome)}[/]"


def range_of(patch: Patch) -> str:
    """The releases that a patch is for, the lowest bound first."""
    return ",".join(map(str, sorted(patch.header.releases, key=lambda one: Version(one.version))))


def reasons(rows: Iterable[Row], name: str, idle: Collection[str] = ()) -> list[str]:
    """Each different outcome and reason of a patch, with the releases that have it."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for row in rows:
        for verdict in row.verdicts:
            if verdict.patch.id == name:
                vain = verdict.outcome == "applies" and row.source in idle and not verdict.patch.installable
                note = " (only with --targets: upstream's wheel is compiled already)" if vain else ""
                found.setdefault((outcome_of(verdict), note, verdict.why), []).append(str(row.version))
    return [f"{outcome} on {', '.join(versions)}{note}: {why}" for (outcome, note, why), versions in found.items()]


def rows_document(rows: Iterable[Row]) -> dict[str, object]:
    """The matrix as data, schema gb10/patches/v1."""
    return {
        "schema": "gb10/patches/v1",
        "cells": [
            {
                "source": row.source,
                "release": str(row.version),
                "pinned": row.pinned,
                "patch": verdict.patch.id,
                "file": verdict.patch.name,
                "outcome": verdict.outcome,
                "probe": verdict.probe.answer,
                "why": verdict.why,
                "sha256": verdict.patch.sha256,
            }
            for row in rows
            for verdict in row.verdicts
        ],
    }


def print_patches(patches: Sequence[Patch], *, as_json: bool) -> None:
    """The variants of a patch: record, trailers, text of each."""
    described = [_described(patch) for patch in patches]
    if as_json:
        print_json({"schema": "gb10/patch/v1", "variants": described})
        return
    for patch, fields in zip(patches, described, strict=True):
        for name, value in fields.items():
            print(f"{name:18} {', '.join(value) if isinstance(value, list) else ' '.join(str(value).split())}")
        print(f"\n{patch.text.decode()}")


def _described(patch: Patch) -> dict[str, object]:
    return {
        "patch": patch.place,
        "subject": patch.header.subject,
        "sha256": patch.sha256,
        **dict(patch.header.trailers),
        "defect": patch.record.defect,
        "fix": patch.record.fix,
        "proven": patch.record.proven,
        "files": [diff.path for diff in patch.diffs] + sorted(patch.files),
    }
