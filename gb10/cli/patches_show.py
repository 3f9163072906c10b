"""Prints patches and their outcomes."""

from collections.abc import Iterable, Sequence

from rich.table import Table

from gb10.cli.common import print_json
from gb10.host.talk import terminal
from gb10.patches.series import Patch
from gb10.patches.status import Row, find_patches
from gb10.workshop import Workshop

SHORT = {
    "applies": "applies",
    "not-applicable": "-",
    "already-upstream": "upstream",
    "superseded": "superseded",
    "conflict": "CONFLICT",
    "unknown-shape": "UNKNOWN",
    "overdue": "NEEDED",
}
STYLES = {
    "applies": "green",
    "not-applicable": "dim",
    "already-upstream": "yellow",
    "superseded": "yellow",
    "conflict": "bold red",
    "unknown-shape": "bold red",
}


def print_rows(shop: Workshop, rows: Sequence[Row]) -> None:
    """A table per source (a line per release, a column per patch), then every reason once."""
    console = terminal(shop.env, stderr=False)
    for source in dict.fromkeys(row.source for row in rows):
        own = [row for row in rows if row.source == source]
        ids = list(dict.fromkeys(verdict.patch.id for row in own for verdict in row.verdicts))
        table = Table(title=source, title_justify="left", box=None, pad_edge=False)
        table.add_column("release", no_wrap=True, min_width=max(len(str(row.version)) for row in own))
        for name in ids:
            table.add_column(name[:4], no_wrap=True)
        for row in own:
            table.add_row(str(row.version), *(_cell(row, name) for name in ids))
        console.print(table)
        for name in ids:
            ranges = dict.fromkeys(
                str(patch.header.releases) for patch in find_patches(shop.catalog.patches, f"{source}/{name}")
            )
            console.print(f"\n{name}  {'  or  '.join(ranges)}", style="bold", soft_wrap=True)
            for line in reasons(own, name):
                console.print(f"  {line}", soft_wrap=True, highlight=False, markup=False)
        console.print()


def _cell(row: Row, name: str) -> str:
    verdict = next((verdict for verdict in row.verdicts if verdict.patch.id == name), None)
    if verdict is None:
        return ""
    outcome = "overdue" if verdict.overdue else verdict.outcome
    return f"[{STYLES.get(outcome, 'bold red')}]{SHORT[outcome]}[/]"


def reasons(rows: Iterable[Row], name: str) -> list[str]:
    """Each different outcome and reason of a patch, with the releases that have it."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for verdict in row.verdicts:
            if verdict.patch.id == name:
                found.setdefault((verdict.outcome, verdict.why), []).append(str(row.version))
    return [f"{outcome} on {', '.join(versions)}: {why}" for (outcome, why), versions in found.items()]


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
