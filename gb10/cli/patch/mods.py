"""``mods``: list, show and check the changes to an installed engine that ``image --mod`` applies."""

import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from gb10.cli.common import JsonOption, print_json, verb_app, with_context
from gb10.cli.values import completer, mods
from gb10.core.reporter import terminal
from gb10.errors import EmptySelectionError
from gb10.image.context import Context
from gb10.image.lock.lockfile import load_recipe
from gb10.image.mods.declaration import RECORD, ModRecord, remarks_of, unfit
from gb10.image.mods.read import FoundMod, find_mod, load_mod, mod_names
from gb10.image.plan.catalog import Catalog
from gb10.image.plan.options import short_label

app = verb_app(
    """Mods: a directory or zip with a run.sh that changes an installed engine. `image --mod` applies them in a build.

\b
./build.py mods list
./build.py mods show fixed-memory
./build.py mods check ~/my-mod          # exit 2 when it breaks the contract
./build.py image --mod fixed-memory --mod ~/my-mod --mod theirs.zip

A community mod runs unchanged: its files lie in /workspace/mods/NAME, WORKSPACE_DIR is set, and run.sh runs as root.
A mod of this checkout has a network only if its mod.yaml has `network: true`. A mod from elsewhere also needs
--mod-network. A mod without a mod.yaml needs only --mod-network.
These verbs do not run a mod.
""",
    group=True,
)

FITS = "fits"
ModArgument = Annotated[
    str,
    typer.Argument(metavar="DIR|ZIP|NAME", autocompletion=completer(mods), help="A path, or a mod of this checkout."),
]


@app.command("list")
@with_context
def list_mods(*, ctx: Context, as_json: JsonOption = False) -> None:
    """List the mods of this checkout and the recipes that they fit.

    \b
    ./build.py mods list --json
    """
    found = [find_mod(_root(ctx.catalog), name) for name in mod_names(_root(ctx.catalog))]
    if not found:
        raise EmptySelectionError("this checkout has no mods", where=str(_root(ctx.catalog)))
    if as_json:
        print_json({"schema": "gb10/mods/v1", "mods": [document(ctx.catalog, mod) for mod in found]})
        return
    width = terminal(ctx.env, stderr=False).width
    for mod in found:
        for line in listed(mod, fit(ctx.catalog, mod.record), width):
            print(line)


def listed(mod: FoundMod, fits: Mapping[str, str], width: int) -> list[str]:
    """A mod in the list: its name and what it does, then for each recipe whether it fits."""
    what = f"{mod.name}: {mod.record.what}" if mod.record else f"{mod.name}: no {RECORD} describes it"
    lines = textwrap.wrap(what, width, subsequent_indent="  ", break_long_words=False)
    reasons: dict[str, list[str]] = {}
    for recipe, reason in fits.items():
        reasons.setdefault(_in_short(reason), []).append(recipe)
    found = "; ".join(f"{', '.join(recipes)}: {reason}" for reason, recipes in reasons.items())
    wrapped = textwrap.wrap(found, width - 2, break_long_words=False)
    return [*lines, *(f"  {line}" for line in wrapped)]


def _in_short(reason: str) -> str:
    """``not needed, already upstream`` or ``no, it is for ENGINE RELEASES`` in place of the whole reason."""
    if reason == FITS:
        return reason
    start, _, rest = reason.partition(":")
    return f"not needed, {start}" if rest else f"no, {reason.partition(', ')[0]}"


@app.command()
@with_context
def show(
    *,
    ctx: Context,
    mod: ModArgument,
    as_json: JsonOption = False,
) -> None:
    """Show what a mod changes, why, for which releases, and its files.

    \b
    ./build.py mods show fixed-memory
    ./build.py mods show ~/my-mod --json
    """
    found = find_mod(_root(ctx.catalog), mod)
    if as_json:
        print_json({"schema": "gb10/mod/v1", **document(ctx.catalog, found)})
        return
    for line in lines(ctx.catalog, found):
        print(line)


@app.command()
@with_context
def check(
    *,
    ctx: Context,
    mod: ModArgument,
    as_json: JsonOption = False,
) -> None:
    """Check a mod against the contract; exit 2 with every violation.

    \b
    ./build.py mods check ~/my-mod
    ./build.py mods check theirs.zip --json
    """
    # A bare name is one of the checkout's mods, or a directory of that name here.
    here = mod not in mod_names(_root(ctx.catalog)) and Path(mod).exists()
    found = load_mod(Path(mod)) if here else find_mod(_root(ctx.catalog), mod)
    if as_json:
        print_json({"schema": "gb10/mod/v1", **document(ctx.catalog, found), "remarks": remarks_of(found.files)})
        return
    for remark in remarks_of(found.files):
        ctx.reporter.say(f"remark: {remark}")
    if found.network:
        print(f"network: it needs the network ({RECORD}: network: true); a mod outside mods/ needs --mod-network")
    for engine, reason in fit(ctx.catalog, found.record).items():
        print(f"{engine}: {reason}")
    print(f"{short_label(found.name, found.digest)} keeps the contract")


def document(catalog: Catalog, mod: FoundMod) -> dict[str, object]:
    """A mod as data."""
    record = mod.record.model_dump(mode="json", by_alias=True) if mod.record else None
    return {
        "name": mod.name,
        "sha256": mod.digest,
        "path": str(mod.path),
        "network": mod.network,
        "record": record,
        "fit": fit(catalog, mod.record),
        "files": sorted(mod.files),
    }


def lines(catalog: Catalog, mod: FoundMod) -> list[str]:
    """A mod as lines to print."""
    fields = {"mod": mod.name, "sha256": mod.digest}
    if mod.record:
        record = mod.record.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        fields |= {name: _text(value) for name, value in record.items()}
    fields |= {f"on {engine}": reason for engine, reason in fit(catalog, mod.record).items()}
    files = [name for name, file in mod.files.items() if file.kind != "folder"]
    return [*(f"{name:12} {value}" for name, value in fields.items()), *(f"{'':12} {name}" for name in files)]


def fit(catalog: Catalog, record: ModRecord | None) -> dict[str, str]:
    """For each recipe (``vllm 0.33.0``), ``fits`` or the reason against it; empty for a mod without a mod.yaml."""
    if record is None:
        return {}
    recipes = [load_recipe(catalog.recipe(engine)) for engine in catalog.engines()]
    return {
        f"{recipe.engine} {recipe.version}": unfit(record, recipe.engine, recipe.version) or FITS for recipe in recipes
    }


def _text(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {text}" for name, text in value.items())
    return " ".join(str(value).split())


def _root(catalog: Catalog) -> Path:
    return catalog.root / "mods"
