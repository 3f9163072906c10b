"""``recipe add`` and ``recipe remove``: registries of recipes."""

from dataclasses import replace
from typing import Annotated

import typer

from gb10.cli.common import JsonOption, print_json, with_context
from gb10.cli.models.recipe_list import registry_document, registry_line, registry_names
from gb10.cli.values import completer
from gb10.cli.verb import inject
from gb10.errors import UsageError
from gb10.image.context import Context
from gb10.models.registries.origin import check_ref, check_registry_name, origin_of
from gb10.models.registries.recipe_file import find_registry
from gb10.models.registries.registry import read_registries
from gb10.models.registries.updating import (
    UpdatedRegistry,
    UpdateOptions,
    add_registries,
    remove_registry,
    update_registries,
)


def wish_of(
    *,
    ref: Annotated[
        str | None, typer.Option("--ref", metavar="REF", help="A branch or tag. Default: the repository's own branch.")
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Its name, in place of those that it gives itself.")
    ] = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="Trust it at this pin: its mods and hooks need no --trust any more.")
    ] = False,
) -> UpdateOptions:
    """How it is added; raises UsageError."""
    return UpdateOptions(
        name=check_registry_name(name) if name else None,
        ref=check_ref(ref) if ref else None,
        trust=trust,
    )


@inject("wish", wish_of, first=True)
@with_context
def add(
    *,
    ctx: Context,
    wish: UpdateOptions,
    source: Annotated[
        str | None,
        typer.Argument(metavar="URL|DIR|FILE|@NAME", help="A git repository, a folder, or a recipe by URL or file."),
    ] = None,
    update: Annotated[
        bool, typer.Option("--update", help="Move registries to what they hold now. Default: all.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be taken; change nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Add a registry of recipes: a git repository or a folder.

    It is pinned: what it holds later counts only after --update, which shows what changed. Its recipes are
    `@NAME/RECIPE`. Nothing of it runs without --trust: mods, hooks, rights and images that it names are shown.

    \b
    ./build.py recipe add https://github.com/spark-arena/recipe-registry
    ./build.py recipe add ~/recipes --name mine --trust
    ./build.py recipe add --update
    """
    wish = replace(wish, dry_run=dry_run)
    if update:
        _update(ctx, source, wish, as_json=as_json)
        return
    if source is None or source.startswith("@"):
        raise UsageError("no registry is named", hint="./build.py recipe add URL, or --update to move those there are")
    origin = origin_of(source)
    made, taken = add_registries(ctx, origin, wish)
    if taken.content.left_out:
        ctx.reporter.say(f"{taken.content.left_out} entries are left out: links, special files, odd names")
    if as_json:
        print_json(_document([registry_document(one) for one in made], dry_run=wish.dry_run))
        return
    for one in made:
        print(registry_line(one))
    ctx.reporter.say("it would be added" if wish.dry_run else f"its recipes: ./build.py recipe list @{made[0].name}")


def _update(ctx: Context, source: str | None, wish: UpdateOptions, *, as_json: bool) -> None:
    known = read_registries(ctx.env)
    if wish.name or wish.ref:
        raise UsageError("--update keeps name and ref", hint="remove the registry, and add it anew")
    chosen = (find_registry(known, source),) if source else known
    if not chosen:
        raise UsageError("there is no registry to update", hint="./build.py recipe add URL adds one")
    moved = update_registries(ctx, chosen, wish)
    if as_json:
        rows = [{**registry_document(one.registry), "old": one.old, "changes": _changes(one)} for one in moved]
        print_json(_document(rows, dry_run=wish.dry_run))
        return
    was = {one.name: one.trusted for one in known}
    for one in moved:
        moves = f"{one.old[:12]} -> {one.registry.pin[:12]}: {len(one.changes)} changes"
        print(f"@{one.registry.name} {moves if one.old != one.registry.pin else f'is unchanged at {one.old[:12]}'}")
        for line in (line for change in one.changes for line in change.lines):
            print(line)
        if was[one.registry.name] and not one.registry.trusted:
            ctx.reporter.say(f"@{one.registry.name} is not trusted any more: read the changes, then add --trust")


def _changes(one: UpdatedRegistry) -> list[dict[str, object]]:
    return [{"kind": change.kind, "what": change.what, "powers": list(change.powers)} for change in one.changes]


def _document(rows: list[dict[str, object]], *, dry_run: bool) -> dict[str, object]:
    return {"schema": "gb10/recipe-registries/v1", "dry_run": dry_run, "registries": rows}


@with_context
def remove(
    *,
    ctx: Context,
    name: Annotated[str, typer.Argument(metavar="@NAME", autocompletion=completer(registry_names), help="A registry.")],
    as_json: JsonOption = False,
) -> None:
    """Remove a registry of recipes.

    \b
    ./build.py recipe remove @theirs
    """
    registry = find_registry(read_registries(ctx.env), name)
    remove_registry(ctx, registry)
    if as_json:
        print_json(_document([registry_document(registry)], dry_run=False))
    else:
        ctx.reporter.say(f"@{registry.name} is removed")
