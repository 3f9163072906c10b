"""``lock``: resolve a recipe; every other verb only reads the result."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.table import Table

from gb10.cli.common import JsonOption, print_json, verb_app, with_context
from gb10.cli.values import EngineOption
from gb10.cli.verb import print_table
from gb10.core.files import digest
from gb10.errors import UsageError
from gb10.image.context import Context
from gb10.image.lock.base_lock import check_on_image, lock_on_image
from gb10.image.lock.lockfile import check_lock, load_any, load_lock, lock_path, write_lock
from gb10.image.lock.relock import lock_recipe
from gb10.image.plan.catalog import DEFAULT_ENGINE
from gb10.image.recipe.on_image import OnImage
from gb10.image.upgrade.news import News, document
from gb10.image.upgrade.outcomes import Patched
from gb10.image.upgrade.proposal import Proposal, check_writable, propose, write

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


ENGINE: Final = "engine"
"""Among the packages to upgrade: the recipe's own engine."""
app = verb_app("""Resolve a recipe into its lock: the name and sha256 of every file, without hosts or URLs.

\b
./build.py lock                    # after a change of the recipe; keeps the versions that still fit
./build.py lock --check            # exit 4 when the lock does not match the recipe
./build.py lock --upgrade torch    # upgrade one package and the packages that it requires
./build.py lock --upgrade base     # upgrade the Debian packages
./build.py lock --upgrade engine   # move the recipe to the engine's next release, with the pins that follow it
./build.py lock --upgrade engine --to 0.33.0 --engine my.yaml

\b
--upgrade engine changes the pins in the recipe in place; comments and layout stay. It prints what moved, which
patches no longer apply, and what the release has new for GPUs of 12.x. When the release does not fit, one sentence
says why, and no file changes.
""")


@app.command(help=app.info.help)
@with_context
def lock(
    *,
    ctx: Context,
    engine: EngineOption = DEFAULT_ENGINE,
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit 4 when the lock is stale.")] = False,
    upgrade: Annotated[
        list[str] | None,
        typer.Option("--upgrade", metavar="PACKAGE", help="Upgrade this package, `base` or `engine`. Repeatable."),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="VERSION", help="The engine's release for `--upgrade engine`. Default: newest."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Resolve a recipe into its lock."""
    path = ctx.catalog.recipe(engine)
    named = tuple(upgrade or ())
    if ENGINE not in named and to is not None:
        raise UsageError("--to needs --upgrade engine", hint=f"./build.py lock --upgrade engine --to {to}")
    if check and ENGINE in named:
        raise UsageError("--check writes nothing, and --upgrade engine writes a recipe", hint="leave one of them out")
    recipe = load_any(path)
    if isinstance(recipe, OnImage) and ENGINE in named:
        raise UsageError(
            "--upgrade engine moves a recipe of our own, and this one takes the engine of an image",
            where=str(path),
            hint=f"name another image in {path.name}, or take the tag's new digest: --upgrade base",
        )
    if check:
        if isinstance(recipe, OnImage):
            check_on_image(recipe, load_lock(lock_path(path)), path)
        else:
            check_lock(recipe, load_lock(lock_path(path)), path)
        ctx.reporter.say(f"{lock_path(path).name} matches {path.name}")
        _print(lock_path(path), written=False, as_json=as_json)
        return
    with ctx.store.locked(f"lock-{digest(str(path.resolve()))}", ctx.reporter.waiting_for(path.name)):
        if ENGINE in named:
            _upgrade(ctx, path, to, tuple(name for name in named if name != ENGINE), as_json=as_json)
            return
        with ctx.reporter.task(f"resolve {path.name}"):
            if isinstance(recipe, OnImage):
                made = lock_on_image(ctx, recipe, path, named)
            else:
                made = lock_recipe(path, store=ctx.store, env=ctx.env, upgrade=named)
        write_lock(lock_path(path), made)
    _print(lock_path(path), written=True, as_json=as_json)


def _upgrade(ctx: Context, path: Path, to: str | None, others: tuple[str, ...], *, as_json: bool) -> None:
    """Move the recipe to another release of its engine: recipe and lock are both written, or neither."""
    check_writable(path)
    found = propose(ctx, path, to, others)
    if found.moves:
        write(found)
    print_upgrade(ctx, found, as_json=as_json)


def _print(path: Path, *, written: bool, as_json: bool) -> None:
    if as_json:
        print_json({"schema": "gb10/lock/v1", "path": str(path), "written": written})
    elif written:
        print(path)
