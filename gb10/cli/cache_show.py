"""How the store's content is shown: a row per kind."""

import time
from collections.abc import Sequence
from typing import Final

from rich.filesize import decimal
from rich.table import Table

from gb10.cli.tables import print_table
from gb10.core.store_gc import Entry, disk
from gb10.image.context import Context

DAY: Final = 86_400
KINDS: Final = {
    "downloads": "downloads",
    "trees": "source trees",
    "wheels": "compiled wheels",
    "rootfss": "base systems",
    "programs": "benchmark programs",
    "explain": "engines' Python for explain",
    "answers": "answers of explain",
    "proofs": "proofs of images",
    "scans": "scans of layers",
    "checkouts": "edits of checkouts",
    "resolved": "other releases",
    "commits": "commits of git",
    "urls": "diffs of URLs",
    "diffs": "parts of diffs",
    "environments": "unfinished environments",
    "built": "notes of builds",
    "builds": "times of builds",
    "rates": "speed of earlier builds",
    "receipts": "receipts of builds",
    "logs": "logs",
    "locks": "locks",
    "tmp": "unfinished downloads",
}
"""What people call a room of the store."""


def print_kinds(ctx: Context, found: Sequence[Entry]) -> None:
    """A row for each kind of which the store has something; gb10's own programs and the embedded engine come last."""
    table = Table(box=None, pad_edge=False)
    for name in ("kind", "entries", "size", "not needed here", "longest unused"):
        table.add_column(name, justify="left" if name == "kind" else "right", no_wrap=True)
    for room, kind in KINDS.items():
        own = [entry for entry in found if entry.room == room]
        if own:
            spare = [entry for entry in own if not entry.why]
            oldest = min(own, key=lambda entry: entry.used)
            table.add_row(kind, str(len(own)), _size(own), _size(spare), age_of(oldest))
    programs = sum(disk(ctx.store.root / name) for name in ("environments", "load", "uv"))
    table.add_row("gb10's own programs", "", decimal(programs), "", "")
    table.add_row("embedded engine", "", decimal(disk(ctx.store.root / "engine")), "", "")
    print_table(ctx.env, table)


def age_of(entry: Entry) -> str:
    """Days since an entry was last used."""
    return f"{(time.time() - entry.used) / DAY:.0f} d"


def _size(some: Sequence[Entry]) -> str:
    return decimal(sum(entry.size for entry in some))
