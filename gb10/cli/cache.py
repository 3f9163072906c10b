"""``cache``: look at what the store keeps, let go of some of it, hash it again, share its wheels."""

import re
import time
from collections.abc import Sequence
from typing import Annotated, Final

import typer
from rich.filesize import decimal
from rich.table import Table

from gb10.cli.cache_share import pull, push
from gb10.cli.common import JsonOption, print_json, verb_app, workshop
from gb10.engine.build_cache import build_cache, prune
from gb10.engine.connection import Engine
from gb10.engine.embedded.daemon import status as embedded_status
from gb10.errors import UsageError, VerifyError
from gb10.host.keep import IN_USE, ROOMS, Entry, choose, damaged, disk, drop, entries, idle
from gb10.host.talk import terminal
from gb10.request.needed import reasons
from gb10.workshop import Workshop

app = verb_app(
    """The store: what it keeps and why, and how to make room. Nothing in it is the only copy of anything.

\b
./build.py cache ls                                  rooms, sizes, and what no recipe here needs
./build.py cache gc --keep 50GB --older-than 14d     what is not needed first, then the longest unused
./build.py cache verify                              hash everything again
./build.py cache push me/gb10-wheels                 compiled wheels to the Hugging Face Hub, signed
./build.py cache pull me/gb10-wheels                 and from there: see wheel-cache in `config show`

Your own engine's images and build cache are never touched; the private one's build cache is.
""",
    group=True,
)

DAY: Final = 86_400
SIZES: Final = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
AGES: Final = {"h": 3600, "d": DAY, "w": 7 * DAY}


@app.command()
def ls(
    *, every: Annotated[bool, typer.Option("--all", help="Every entry.")] = False, as_json: JsonOption = False
) -> None:
    """Rooms with sizes and ages; what an image of this checkout, or a patch, needs, and what nothing needs."""
    shop = workshop()
    found, engine = entries(shop.store, reasons(shop)), _private(shop)
    if as_json:
        print_json(
            {
                "schema": "gb10/cache/v1",
                "root": str(shop.store.root),
                "entries": list(map(document, found)),
                "engine_bytes": disk(shop.store.root / "engine"),
                "build_cache_bytes": build_cache(engine) if engine else None,
            }
        )
        return
    table = Table(box=None, pad_edge=False)
    for name in ("room", "entries", "size", "not needed here", "longest unused"):
        table.add_column(name, justify="left" if name == "room" else "right", no_wrap=True)
    for room in ROOMS:
        own = [entry for entry in found if entry.room == room]
        spare = [entry for entry in own if not entry.why]
        oldest = min(own, key=lambda entry: entry.used, default=None)
        table.add_row(room, str(len(own)), _size(own), _size(spare), _age(oldest) if oldest else "")
    table.add_row("engine", "", decimal(disk(shop.store.root / "engine")), "", "")
    terminal(shop.env, stderr=False).print(table)
    for entry in found if every else ():
        name = f"{entry.room}/{entry.key[:12]}"
        print(f"{decimal(entry.size):>9}  {_age(entry):>5}  {name}  {entry.what}  {entry.why or '-'}")


@app.command()
def gc(
    *,
    keep: Annotated[
        str | None, typer.Option("--keep", metavar="SIZE", help="Down to this much, images left out: 50GB.")
    ] = None,
    older_than: Annotated[str | None, typer.Option("--older-than", metavar="AGE", help="Unused for: 14d.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go; remove nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Let go of what nothing here needs, then of the longest unused, then of the private engine's build cache."""
    if keep is None and older_than is None:
        raise UsageError("cache gc needs --keep or --older-than", hint="./build.py cache gc --keep 50GB")
    room, age = _number(keep, SIZES, "--keep"), _number(older_than, AGES, "--older-than")
    shop = workshop()
    found, engine = entries(shop.store, reasons(shop)), _private(shop)
    own, cache = sum(entry.size for entry in found), build_cache(engine) if engine else 0
    chosen = choose(found, own + cache, keep=room, age=age, now=time.time())
    gone = chosen if dry_run else [entry for entry in chosen if _dropped(shop, entry)]
    freed = sum(entry.size for entry in gone)
    pruned = _prune(engine, room, age, own - freed) if engine and not dry_run else 0
    if as_json:
        print_json(
            {
                "schema": "gb10/cache-gc/v1",
                "dry_run": dry_run,
                "removed": list(map(document, gone)),
                "freed_bytes": freed,
                "build_cache_freed_bytes": pruned,
            }
        )
        return
    fresh = sum(time.time() - entry.used < IN_USE for entry in found)
    print(
        f"{'would free' if dry_run else 'freed'} {decimal(freed)}: {len(gone)} entries of {len(found)}, "
        f"{fresh} are of the last hour and stay"
    )
    print(_about_engine(engine, cache, pruned, dry_run=dry_run))


@app.command()
def verify(*, as_json: JsonOption = False) -> None:
    """Hash everything again; what is damaged is removed, to be fetched or made anew. Exit 9 when something was."""
    shop = workshop()
    found = entries(shop.store, {})
    with shop.talk.task("verify", sum(entry.size for entry in found)) as task:
        states = []
        for entry in found:
            states.append(damaged(entry))
            shop.talk.advance(task, entry.size)
    wrong = {
        entry: f"{entry.room}/{entry.key[:12]}  {entry.what}"
        for entry, state in zip(found, states, strict=True)
        if state
    }
    removed = [entry for entry in wrong if drop(shop.store, entry, lambda entry: damaged(entry) is True)]
    if as_json:
        print_json(
            {
                "schema": "gb10/cache-verify/v1",
                "whole": states.count(False),
                "without_hash": states.count(None),
                "damaged": list(map(document, wrong)),
            }
        )
    else:
        print(f"{states.count(False)} entries are whole, {states.count(None)} have no hash of their own")
    if wrong:
        raise VerifyError(
            f"{len(wrong)} entries were damaged, {len(removed)} of them are removed",
            where="\n".join(wrong.values()),
            hint="run what you need: they are fetched or made again; and check the disk",
        )


app.command()(push)
app.command()(pull)


def document(entry: Entry) -> dict[str, object]:
    """An entry as data."""
    return {
        "room": entry.room,
        "key": entry.key,
        "bytes": entry.size,
        "used": int(entry.used),
        "why": entry.why or None,
    }


def _dropped(shop: Workshop, entry: Entry) -> bool:
    if drop(shop.store, entry, idle):
        return True
    shop.talk.say(f"{entry.room}/{entry.key[:12]} is used by another run: kept")
    return False


def _private(shop: Workshop) -> Engine | None:
    """The private engine while it runs."""
    return embedded_status(shop.store).engine


def _prune(engine: Engine, keep: int | None, age: float | None, entries_left: int) -> int:
    freed = prune(engine, keep=None, age=age) if age is not None else 0
    if keep is not None and entries_left + build_cache(engine) > keep:
        freed += prune(engine, keep=max(keep - entries_left, 0), age=None)
    return freed


def _about_engine(engine: Engine | None, cache: int, pruned: int, *, dry_run: bool) -> str:
    if engine is None:
        return "the private engine does not run: its build cache, if it has one, stays"
    if dry_run:
        return f"of the private engine's build cache, {decimal(cache)}, what is left over the size or the age would go"
    return f"freed {decimal(pruned)} of the private engine's build cache, of {decimal(cache)}; its images stay"


def _number(text: str | None, units: dict[str, int], option: str) -> int | None:
    """``50GB``, ``14d``: a number and a unit; raises UsageError."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)", text)
    if not found or found[2] not in units:
        raise UsageError(f"{option} {text!r} is no number with a unit", hint=f"units: {', '.join(units)}")
    return int(float(found[1]) * units[found[2]])


def _size(some: Sequence[Entry]) -> str:
    return decimal(sum(entry.size for entry in some))


def _age(entry: Entry) -> str:
    return f"{(time.time() - entry.used) / DAY:.0f} d"
