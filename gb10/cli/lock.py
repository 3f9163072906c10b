"""``lock``: resolve a recipe; every other verb only reads the result."""

from pathlib import Path
from typing import Annotated, Final

import typer

from gb10.cli.common import JsonOption, print_json, verb_app, with_context
from gb10.cli.upgrade_show import print_upgrade
from gb10.cli.values import EngineOption
from gb10.core.digest import digest
from gb10.errors import UsageError
from gb10.image.context import Context
from gb10.image.lock.lockfile import check_lock, load_lock, load_recipe, lock_path, write_lock
from gb10.image.lock.relock import lock_recipe
from gb10.image.plan.catalog import DEFAULT_ENGINE
from gb10.image.upgrade.proposal import propose
from gb10.image.upgrade.writing import check_writable, write

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
    if check:
        check_lock(load_recipe(path), load_lock(lock_path(path)), path)
        ctx.reporter.say(f"{lock_path(path).name} matches {path.name}")
        _print(lock_path(path), written=False, as_json=as_json)
        return
    with ctx.store.locked(f"lock-{digest(str(path.resolve()))}", ctx.reporter.waiting_for(path.name)):
        if ENGINE in named:
            _upgrade(ctx, path, to, tuple(name for name in named if name != ENGINE), as_json=as_json)
            return
        with ctx.reporter.task(f"resolve {path.name}"):
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
