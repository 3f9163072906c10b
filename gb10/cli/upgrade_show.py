"""Prints what an upgrade of the engine moves: tables for people, or one document."""

from collections.abc import Iterable, Iterator
from typing import Final

from rich.table import Table

from gb10.cli.common import print_json
from gb10.cli.tables import print_table
from gb10.image.context import Context
from gb10.image.upgrade.news import News, document
from gb10.image.upgrade.outcomes import Patched
from gb10.image.upgrade.proposal import Proposal

MOST: Final = 20
"""Rows of a list for people; --json has all."""


def upgrade_document(found: Proposal) -> dict[str, object]:
    """The proposal as data, schema gb10/upgrade/v1."""
    return {
        "schema": "gb10/upgrade/v1",
        "path": str(found.path),
        "written": bool(found.moves),
        "engine": found.engine,
        "from": str(found.old),
        "to": str(found.new),
        "moved": [
            {"at": list(move.at), "what": move.what, "from": move.before, "to": move.after, "why": move.why}
            for move in found.moves
        ],
        "wheels": [{"name": name, "from": old or None, "to": new or None} for name, old, new in found.wheels],
        "patches": [
            {
                "source": patch.source,
                "patch": patch.patch,
                "release": patch.release,
                "before": patch.before or None,
                "after": patch.after,
                "why": patch.why,
                "stops": patch.stops,
            }
            for patch in found.checked.patches
        ],
        "new_for_12x": document(found.news),
        "not_proposed": list(found.notes),
        "still_named": [{"line": number, "text": text} for number, text in found.lines],
        "next": list(found.steps),
    }


def print_upgrade(ctx: Context, found: Proposal, *, as_json: bool) -> None:
    """The summary on stdout."""
    if as_json:
        print_json(upgrade_document(found))
        return
    if not found.moves:
        print(f"{found.path}: {found.engine} {found.old} stays, nothing newer is proposed")
        _print_list("", found.notes)
        return
    print(f"{found.path}: {found.engine} {found.old} -> {found.new}\n")
    _print_moves(ctx, found)
    _print_wheels(ctx, found)
    _print_patches(ctx, found.checked.patches)
    _print_list(f"new for 12.x in {found.engine} {found.new}", _news(found.news))
    _print_list("not proposed, or left", found.notes)
    _print_list("lines that still name a release that moved", (f"{number}: {text}" for number, text in found.lines))
    _print_list("next", found.steps)


def _print_moves(ctx: Context, found: Proposal) -> None:
    table = _table("pin", "from", "to", "why")
    for move in found.moves:
        table.add_row(f"{move.what} ({move.at[0]})", _short(move.before), _short(move.after), move.why)
    print_table(ctx.env, table)
    print()


def _print_wheels(ctx: Context, found: Proposal) -> None:
    pinned = {move.what for move in found.moves}
    others = [row for row in found.wheels if row[0] not in pinned]
    table = _table("other wheels", "from", "to")
    for name, old, new in others[:MOST]:
        table.add_row(name, old or "-", new or "-")
    if others:
        print_table(ctx.env, table)
        if len(others) > MOST:
            print(f"and {len(others) - MOST} more, listed by --json")
        print()


def _print_patches(ctx: Context, patches: Iterable[Patched]) -> None:
    table = _table("patch", "release", "before", "now", "why")
    for patch in patches:
        changed = patch.before != patch.after or patch.remedy
        name = f"{patch.source}/{patch.patch}"
        table.add_row(name, patch.release, patch.before or "-", patch.after, patch.why if changed else "")
    if table.row_count:
        print_table(ctx.env, table)
        print()


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in columns:
        table.add_column(name, overflow="fold")
    return table


def _news(found: News) -> Iterator[str]:
    yield from (f"option {name}" for name in found.options)
    yield from (f"environment {name}" for name in found.environment)
    yield from (f"optional package {text}" for text in found.packages)
    for place in found.places[:MOST]:
        lines = "1 line" if place.lines == 1 else f"{place.lines} lines"
        yield f"{place.path}{' (new file)' if place.new else ''}, {lines}: {place.first}"
    if len(found.places) > MOST:
        yield f"and {len(found.places) - MOST} more files, listed by --json"


def _print_list(title: str, lines: Iterable[str]) -> None:
    found = list(lines)
    if found and title:
        print(f"{title}:")
    for line in found:
        print(f"  {line}")
    if found:
        print()


def _short(text: str) -> str:
    """A pin as a table shows it: of a commit the first 12 digits."""
    return text[:12] if len(text) == 40 else text
