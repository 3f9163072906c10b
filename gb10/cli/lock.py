"""``lock``: resolve a recipe; every other verb only reads the result."""

from typing import Annotated

import typer

from gb10.cli.common import EngineOption, QuietOption, VerboseOption, verb_app, workshop
from gb10.host.digest import digest
from gb10.lock.lockfile import check_lock, load_lock, load_recipe, lock_path, write_lock
from gb10.lock.relock import lock_recipe

WAITING = "another run locks this recipe; waiting for it"

app = verb_app("""Resolve a recipe into its lock: every file by name and sha256, no host, no URL.

\b
./build.py lock                    after a change of the recipe: keeps what it can
./build.py lock --check            exit 4 when the lock does not match the recipe
./build.py lock --upgrade torch    moves one package (and what it pulls along)
./build.py lock --upgrade base     the Debian packages as the mirror has them now
""")


@app.command(help=app.info.help)
def lock(
    *,
    engine: EngineOption = "vllm",
    check: Annotated[bool, typer.Option("--check", help="Only compare; exit 4 when stale.")] = False,
    upgrade: Annotated[list[str] | None, typer.Option("--upgrade", help="Package to move, or `base`.")] = None,
    verbose: VerboseOption = 0,
    quiet: QuietOption = False,
) -> None:
    """Resolve a recipe into its lock."""
    shop = workshop(verbose, quiet)
    path = shop.catalog.recipe(engine)
    if check:
        check_lock(load_recipe(path), load_lock(lock_path(path)), path)
        shop.talk.say(f"{lock_path(path).name} matches {path.name}")
        return
    with shop.store.locked(f"lock-{digest(str(path.resolve()))}", lambda: shop.talk.say(WAITING)):
        with shop.talk.task(f"resolve {path.name}"):
            made = lock_recipe(path, store=shop.store, env=shop.env, upgrade=tuple(upgrade or ()))
        write_lock(lock_path(path), made)
    print(lock_path(path))
