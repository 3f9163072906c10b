"""``lock``: resolve a recipe; every other verb only reads the result."""

from pathlib import Path
from typing import Annotated

import typer

from gb10.cli.common import JsonOption, opens, print_json, verb_app
from gb10.cli.values import EngineOption
from gb10.host.digest import digest
from gb10.lock.lockfile import check_lock, load_lock, load_recipe, lock_path, write_lock
from gb10.lock.relock import lock_recipe
from gb10.plan.catalog import DEFAULT_ENGINE
from gb10.workshop import Workshop

app = verb_app("""Resolve a recipe into its lock: the name and sha256 of every file, without hosts or URLs.

\b
./build.py lock                    # after a change of the recipe; keeps the versions that still fit
./build.py lock --check            # exit 4 when the lock does not match the recipe
./build.py lock --upgrade torch    # upgrade one package and the packages that it requires
./build.py lock --upgrade base     # upgrade the Debian packages
""")


@app.command(help=app.info.help)
@opens
def lock(
    *,
    shop: Workshop,
    engine: EngineOption = DEFAULT_ENGINE,
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit 4 when the lock is stale.")] = False,
    upgrade: Annotated[
        list[str] | None,
        typer.Option("--upgrade", metavar="PACKAGE", help="Upgrade this package, or `base`. Repeatable."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Resolve a recipe into its lock."""
    path = shop.catalog.recipe(engine)
    if check:
        check_lock(load_recipe(path), load_lock(lock_path(path)), path)
        shop.talk.say(f"{lock_path(path).name} matches {path.name}")
        _print(lock_path(path), written=False, as_json=as_json)
        return
    with shop.store.locked(f"lock-{digest(str(path.resolve()))}", shop.talk.waiting_for(path.name)):
        with shop.talk.task(f"resolve {path.name}"):
            made = lock_recipe(path, store=shop.store, env=shop.env, upgrade=tuple(upgrade or ()))
        write_lock(lock_path(path), made)
    _print(lock_path(path), written=True, as_json=as_json)


def _print(path: Path, *, written: bool, as_json: bool) -> None:
    if as_json:
        print_json({"schema": "gb10/lock/v1", "path": str(path), "written": written})
    elif written:
        print(path)
