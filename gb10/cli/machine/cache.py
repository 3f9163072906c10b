"""``cache``: show what the store keeps, make room, check its hashes, share its wheels."""

import hashlib
import json
import os
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.filesize import decimal
from rich.table import Table

from gb10.cli.causes import shortened
from gb10.cli.verb import JsonOption, print_json, print_table, verb_app, with_host
from gb10.containers.connection import Engine
from gb10.containers.embedded.daemon import Place, answering
from gb10.core.files import DoubtedFileError, read_state_file
from gb10.core.host import Host
from gb10.core.inputs_digest import inputs_digest
from gb10.core.installation import ROOT
from gb10.core.kept_sizes import KeptSizes
from gb10.core.store import Store
from gb10.core.store_gc import (
    IN_USE,
    KEPT,
    SECTIONS,
    Entry,
    check_clock,
    choose,
    count,
    damaged,
    disk,
    drop,
    entries,
    idle,
)
from gb10.errors import UsageError, VerifyError

if TYPE_CHECKING:
    from gb10.image.request.planning import Reasons

DAY: Final = 86_400
LARGEST: Final = 16 << 20
"""Bytes of the kept answer of what is needed; ten engines' has 140 kB."""
FORMER: Final = "needed.json"
"""Where earlier versions kept that answer."""
KINDS: Final = {
    "downloads": "downloads",
    "trees": "source trees",
    "wheels": "compiled wheels",
    "rootfss": "base systems",
    "placed": "files laid over images",
    "programs": "benchmark programs",
    "explain": "engines' Python for explain",
    "answers": "answers of explain",
    "bases": "layers of bases that were read",
    "proofs": "proofs of images",
    "scans": "scans of layers",
    "checkouts": "edits of checkouts",
    "resolved": "other releases",
    "commits": "commits of git",
    "nearest": "nearest releases of commits",
    "kept": "notes of kept wheels",
    "urls": "diffs of URLs",
    "diffs": "parts of diffs",
    "verdicts": "verdicts on patches",
    "environments": "unfinished environments",
    "built": "notes of builds",
    "builds": "times of builds",
    "rates": "speed of earlier builds",
    "plans": "plans that were shown",
    "receipts": "receipts of builds",
    "logs": "logs",
    "locks": "locks",
    "tmp": "unfinished downloads",
}
"""What people call a section of the store."""


def needed(host: Host) -> "Reasons":
    """Why each entry is needed. To know it, every image is planned; so the store keeps the answer.

    It holds while no file of this checkout and no setting changes. A recipe without a plan is reported every time.
    """
    place = host.store.entry("needed", f"{hashlib.sha256(os.fsencode(ROOT)).hexdigest()[:32]}.json")
    words = ("needed", os.uname().machine)
    now = inputs_digest(words, host.env)
    with suppress(OSError, DoubtedFileError, ValueError, TypeError, KeyError):  # none yet, or damaged: it is made again
        kept = json.loads(read_state_file(place, LARGEST)[0])
        if now and kept["inputs"] == now:
            return {(str(section), str(key)): str(why) for section, key, why in kept["needed"]}

    from gb10.image.context import on_host  # noqa: PLC0415 - what plans, for a checkout that changed
    from gb10.image.request.planning import reasons  # noqa: PLC0415 - the same

    unplanned: list[str] = []
    found = reasons(on_host(host), unplanned.append)
    for line in unplanned:
        host.reporter.say(line)
    if not unplanned and now and inputs_digest(words, host.env) == now:
        with suppress(OSError):  # a full or read-only disk: the next call plans again
            rows = [[section, key, why] for (section, key), why in found.items()]
            host.store.write_text(place, json.dumps({"inputs": now, "needed": rows}))
            for other in place.parent.iterdir():  # of checkouts that are gone
                if time.time() - other.stat().st_mtime > 30 * DAY:
                    other.unlink()
    return found


def own_programs(store: Store, sizes: KeptSizes) -> int:
    """Bytes of gb10's own environments, and of what else runs for it. A finished environment stays as it is, and so
    does a wheel that uv unpacked.
    """
    environments = {path: path / "complete" for path in (store.root / "environments").glob("*")}
    wheels = {path: path for path in (store.root / "uv/archive-v0").glob("*")}
    large = {path: mark for path, mark in (environments | wheels).items() if not path.is_symlink()}
    others = [path for path in (store.root / "uv").glob("*") if path.name != "archive-v0"]
    found = [sizes.count(path, mark, partial(count, path))[1] for path, mark in large.items()]
    return sum(found) + sum(map(disk, (store.root / "load", *others)))


def print_kinds(host: Host, found: Sequence[Entry], programs: int, engine: int) -> None:
    """A row for each kind of which the store has something; gb10's own programs and the embedded engine come last."""
    table = Table(box=None, pad_edge=False)
    for name in ("kind", "entries", "size", "not needed here", "longest unused"):
        table.add_column(name, justify="left" if name == "kind" else "right", no_wrap=True)
    for section, kind in KINDS.items():
        own = [entry for entry in found if entry.section == section]
        if own:
            spare = [entry for entry in own if not entry.why]
            oldest = min(own, key=lambda entry: entry.used)
            table.add_row(kind, str(len(own)), _size(own), _size(spare), age_of(oldest))
    table.add_row("gb10's own programs", "", decimal(programs), "", "")
    table.add_row("embedded engine", "", decimal(engine), "", "")
    print_table(host.env, table)


def age_of(entry: Entry) -> str:
    """Days since an entry was last used."""
    return f"{(time.time() - entry.used) / DAY:.0f} d"


def _size(some: Sequence[Entry]) -> str:
    return decimal(sum(entry.size for entry in some))


app = verb_app(
    """The store: show what it keeps, make room, share wheels. Everything in it can be made or downloaded again.

\b
./build.py cache ls                                  # sizes, and what no recipe here needs
./build.py cache gc --keep 50GB --older-than 14d     # remove the unneeded first, then the longest unused
./build.py cache verify                              # check every hash again
./build.py cache push me/gb10-wheels                 # upload signed wheels to the Hugging Face Hub
./build.py cache pull me/gb10-wheels                 # download them; see wheel-cache in `config show`

`gc` also prunes the embedded engine's build cache. It never touches the images and build cache of your own Docker.
""",
    group=True,
    places={
        "ls": "",
        "gc": "",
        "verify": "",
        "push": "machine.cache_share:push",
        "pull": "machine.cache_share:pull",
    },
)

SIZES: Final = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
AGES: Final = {"h": 3600, "d": DAY, "w": 7 * DAY}


@app.command()
@with_host
def ls(
    *,
    host: Host,
    every: Annotated[bool, typer.Option("--all", help="List every entry.")] = False,
    as_json: JsonOption = False,
) -> None:
    """List sizes and ages, and what nothing in this checkout needs.

    \b
    ./build.py cache ls --all
    """
    sizes, engine = KeptSizes(host.store), _embedded(host.store)
    found = entries(host.store, needed(host), sizes)
    # While the engine does not run, nothing changes its bytes after the last line of its log.
    place = Place(host.store)
    in_engine = disk(place.home) if engine else sizes.count(place.home, place.log, partial(count, place.home))[1]
    programs = own_programs(host.store, sizes)
    sizes.save()
    if as_json:
        print_json(
            {
                "schema": "gb10/cache/v1",
                "root": str(host.store.root),
                "entries": list(map(document, found)),
                "engine_bytes": in_engine,
                "build_cache_bytes": _build_cache(engine) if engine else None,
            }
        )
        return
    print_kinds(host, found, programs, in_engine)
    for entry in found if every else ():
        name = f"{entry.section}/{entry.key[:12]}"
        print(f"{decimal(entry.size):>9}  {age_of(entry):>5}  {name}  {entry.what}  {entry.why or '-'}")


@app.command()
@with_host
def gc(
    *,
    host: Host,
    keep: Annotated[
        str | None,
        typer.Option("--keep", metavar="SIZE", help="Remove until this much is left, images not counted: 50GB."),
    ] = None,
    older_than: Annotated[
        str | None, typer.Option("--older-than", metavar="AGE", help="Remove entries unused for this long: 14d.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be removed; remove nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Remove what nothing here needs, then the longest unused.

    \b
    ./build.py cache gc --keep 50GB --dry-run
    ./build.py cache gc --older-than 14d

    Last comes the build cache of the embedded engine. Entries used in the last hour stay.
    """
    if keep is None and older_than is None:
        raise UsageError("cache gc needs --keep or --older-than", hint="./build.py cache gc --keep 50GB")
    most, age = _number(keep, SIZES, "--keep"), _number(older_than, AGES, "--older-than")
    found, engine = entries(host.store, needed(host)), _embedded(host.store)
    check_clock(host.store, found, time.time())
    own, cache = sum(entry.size for entry in found), _build_cache(engine) if engine else 0
    chosen = choose(found, own + cache, keep=most, age=age, now=time.time())
    gone: list[Entry] = []
    for entry in chosen:
        if dry_run or drop(host.store, entry, idle):
            gone.append(entry)
        else:
            host.reporter.say(f"{entry.section}/{entry.key[:12]} stays: another run uses it")
    freed = sum(entry.size for entry in gone)
    pruned = _prune(host.store, engine, most, age, own - freed) if engine and not dry_run else 0
    if not dry_run:
        _remove_former(host)
    if as_json:
        print_json(
            {
                "schema": "gb10/cache-gc/v1",
                "dry_run": dry_run,
                "removed": list(map(document, gone)),
                "freed_bytes": sum(entry.size for entry in gone),
                "build_cache_freed_bytes": pruned,
            }
        )
        return
    print(f"{'would free' if dry_run else 'freed'} {decimal(freed)}: {_counts(gone, found)}")
    if lasting := [entry for entry in found if entry.lasting and entry.section == "downloads"]:
        print(
            f"{len(lasting)} files of indexes that forget stay, {_size(lasting)}: delete {host.store.root / KEPT} first"
        )
    print(_about_engine(engine, cache, pruned, dry_run=dry_run))


def _remove_former(host: Host) -> None:
    former = host.store.root / FORMER
    try:
        former.unlink()
    except FileNotFoundError:  # another run was faster, or no earlier version ever ran
        return
    except OSError as error:
        host.reporter.say(f"{former} stays: {error.strerror or error}; nothing reads it now")
        return
    host.reporter.say(f"removed {former}: an earlier version of gb10 kept it, nothing reads it now")


def _counts(gone: Sequence[Entry], found: Sequence[Entry]) -> str:
    """How many entries are removed, and how many stay because they were used in the last hour."""
    fresh = sum(time.time() - entry.used < IN_USE for entry in found)
    return f"{len(gone)} entries of {len(found)}, {fresh} stay: used in the last hour"


@app.command()
@with_host
def verify(*, host: Host, as_json: JsonOption = False) -> None:
    """Check every hash, remove damaged entries.

    \b
    ./build.py cache verify --json

    Exit 9 when an entry was damaged.
    """
    found = [entry for entry in entries(host.store, {}) if entry.section in SECTIONS]
    with host.reporter.task("verify", sum(entry.size for entry in found)) as task:
        states = []
        for entry in found:
            states.append(damaged(entry))
            host.reporter.advance(task, entry.size)
    wrong = {
        entry: f"{entry.section}/{entry.key[:12]}  {entry.what}"
        for entry, state in zip(found, states, strict=True)
        if state
    }
    removed = [entry for entry in wrong if drop(host.store, entry, lambda entry: damaged(entry) is True)]
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
        print(f"{states.count(False)} entries are intact, {states.count(None)} have no hash")
    if wrong:
        raise VerifyError(
            f"{len(wrong)} entries were damaged; {len(removed)} of them were removed",
            where="\n".join(wrong.values()),
            hint="the next build downloads or makes them again; check the disk",
        )


def document(entry: Entry) -> dict[str, object]:
    """An entry as data."""
    return {
        "room": entry.section,
        "key": entry.key,
        "bytes": entry.size,
        "used": int(entry.used),
        "why": entry.why or None,
    }


def _embedded(store: Store) -> Engine | None:
    """The embedded engine while it runs."""
    return answering(Place(store))


def _build_cache(engine: Engine) -> int:
    from gb10.containers.buildx.build_cache import build_cache  # noqa: PLC0415 - for an engine that runs

    return build_cache(engine)


def _prune(store: Store, engine: Engine, keep: int | None, age: float | None, entries_left: int) -> int:
    from gb10.containers.buildx.build_cache import build_cache, prune  # noqa: PLC0415 - for an engine that runs
    from gb10.image.build.bases import drop_unknown  # noqa: PLC0415 - what builds, for `gc` alone

    drop_unknown(store, engine)
    freed = prune(engine, keep=None, age=age) if age is not None else 0
    if keep is not None and entries_left + build_cache(engine) > keep:
        freed += prune(engine, keep=max(keep - entries_left, 0), age=None)
    return freed


def _about_engine(engine: Engine | None, cache: int, pruned: int, *, dry_run: bool) -> str:
    if engine is None:
        return "the embedded engine is not running: its build cache, if any, stays"
    if dry_run:
        return f"the embedded engine's build cache of {decimal(cache)} would be pruned to the same limits"
    return f"freed {decimal(pruned)} of {decimal(cache)} in the embedded engine's build cache; its images stay"


def _number(text: str | None, units: dict[str, int], option: str) -> int | None:
    """``50GB``, ``14d``: a number and a unit; raises UsageError."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d{1,12}(?:\.\d{1,6})?)\s*([A-Za-z]+)", text)
    if not found or found[2] not in units:
        raise UsageError(
            f"{option} needs a number with a unit, not {shortened(text)!r}", hint=f"units: {', '.join(units)}"
        )
    return int(float(found[1]) * units[found[2]])
