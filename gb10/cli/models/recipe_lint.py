"""``recipe lint``: what is wrong with recipes, by rules with a reason."""

import json
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from gb10.cli.verb import AllowUncheckedOption, JsonOption, inject, print_json, with_reporter
from gb10.core.checked import counted, documents_of, looked_at, refuse_unchecked, rows_of
from gb10.core.reporter import Reporter
from gb10.errors import EmptySelectionError, UncheckedError, UsageError
from gb10.image.request.recipe_mods import (
    Judged,
    linted,
)
from gb10.models.issue import LEVELS, Issue, errors_of, lines_of
from gb10.models.lint.lint_parts import LIMITS, PARTS, Linted
from gb10.models.lint.rule import Rule, load_rules
from gb10.models.lint.served import ImageFacts, facts_of
from gb10.models.registries.recipe_file import SUFFIXES, RecipeFile, find_recipe, read_text, registry_files

MOST = 10_000
"""Files of one call."""


def judged_as(
    *,
    release: Annotated[
        str | None, typer.Option("--release", metavar="VERSION", help="The engine's release. Default: the image's.")
    ] = None,
    image: Annotated[
        Path | None,
        typer.Option(
            "--image", metavar="FILE", help="`docker image inspect` of the image, for its release and its patches."
        ),
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(
            "--weights", metavar="PATH", help="The model's folder, index or config.json, for the rules about its sizes."
        ),
    ] = None,
) -> Judged:
    """What a command line names; raises UsageError for a file that is none."""
    return Judged(release=release, image=_facts(image) if image is not None else None, weights=weights)


@with_reporter
@inject("judged", judged_as, first=True)
def lint_recipes(
    *,
    reporter: Reporter,
    judged: Judged,
    recipes: Annotated[
        list[str] | None, typer.Argument(metavar="FILE|NAME|DIR|@REGISTRY", help="Files, folders, ours, or a registry.")
    ] = None,
    level: Annotated[
        str, typer.Option("--level", metavar="LEVEL", help="The least level to print: error, warning or note.")
    ] = "note",
    rules: Annotated[bool, typer.Option("--rules", help="List the rules with their evidence, and stop.")] = False,
    allow_unchecked: AllowUncheckedOption = False,
    as_json: JsonOption = False,
) -> None:
    if level not in LEVELS:
        raise UsageError(f"unknown level {level!r}", hint=f"valid: {', '.join(LEVELS)}")
    levels, known = LEVELS[: LEVELS.index(level) + 1], load_rules()
    if rules:
        _print_rules(known, as_json=as_json)
        return
    found = {file: linted(file, known, judged) for file in _files(recipes or [])}
    shown = {file: [one for one in result.issues if one.level in levels] for file, result in found.items()}
    unchecked = [replace(row, where=file.shown) for file, result in found.items() for row in result.unchecked]
    if as_json:
        rows = [_document(file, shown[file]) for file in shown]
        print_json({"schema": "gb10/recipe-lint/v1", "recipes": rows, "unchecked": documents_of(unchecked)})
    else:
        for file, result in found.items():
            for line in (
                *lines_of(shown[file]),
                *rows_of([replace(row, where=file.shown) for row in result.unchecked]),
            ):
                print(line)
        reporter.say(f"{_summary(found)}{counted(unchecked)}")
    if any(errors_of(result.issues) for result in found.values()):
        raise typer.Exit(UsageError.code)
    if as_json and unchecked and not allow_unchecked:  # the document has the rows
        raise typer.Exit(UncheckedError.code)
    refuse_unchecked(unchecked, allowed=allow_unchecked)


lint_recipes.__doc__ = f"""Check recipes by what the field has learnt; nothing is started.

    Exit 2 when a recipe has an error, else 13 when a part could not be looked at: it is a row with its reason.

    \b
{textwrap.indent(looked_at(PARTS), "    ")}

    {LIMITS[0]}.

    \b
    ./build.py recipe lint qwen3-0.6b
    ./build.py recipe lint theirs/ --level warning --allow-unchecked
    ./build.py recipe lint @theirs
    ./build.py recipe lint --rules
    """


def _facts(path: Path) -> ImageFacts:
    """What `docker image inspect` says of an image, from a file; raises UsageError for anything else."""
    try:
        found = json.loads(read_text(path))
        labels = found[0]["Config"]["Labels"] or {}
        return facts_of({str(name): str(text) for name, text in labels.items()})
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        hint = f"docker image inspect IMAGE > {path}"
        raise UsageError(f"{path} is not what docker image inspect prints", hint=hint) from error


def _files(names: Sequence[str]) -> Iterator[RecipeFile]:
    """The files of the arguments; of a folder all recipes below it, links left out; of a registry its recipes."""
    if not names:
        raise UsageError("no recipe is named", hint="name files, folders, or ours: ./build.py recipe list")
    for name in names:
        folder = Path(name)
        if name.startswith("@") and "/" not in name:
            yield from registry_files(name)
            continue
        if not folder.is_dir():
            yield find_recipe(name)
            continue
        below = sorted(
            path for path in folder.rglob("*") if path.suffix in SUFFIXES and path.is_file() and not path.is_symlink()
        )
        if not below or len(below) > MOST:
            problem = f"more than {MOST} recipes" if below else "no recipe (.yaml, .yml)"
            raise EmptySelectionError(f"{name} holds {problem}", hint="name the files")
        yield from map(RecipeFile, below)


def _document(file: RecipeFile, issues: Sequence[Issue]) -> dict[str, object]:
    return {"file": file.shown, "issues": [issue.document for issue in issues]}


def _summary(found: dict[RecipeFile, Linted]) -> str:
    counts = [sum(issue.level == level for result in found.values() for issue in result.issues) for level in LEVELS]
    words = ", ".join(
        f"{count} {level}{'' if count == 1 else 's'}" for count, level in zip(counts, LEVELS, strict=True)
    )
    return f"{len(found)} recipe{'' if len(found) == 1 else 's'}: {words}"


def _print_rules(rules: Sequence[Rule], *, as_json: bool) -> None:
    if as_json:
        print_json({"schema": "gb10/lint-rules/v1", "rules": [rule.model_dump(by_alias=True) for rule in rules]})
        return
    for rule in rules:
        about = " ".join(filter(None, ["/".join(rule.engines), rule.releases]))
        print(f"{rule.code}: {rule.level}{f' ({about})' if about else ''}")
        print(f"  {rule.text}\n  fix: {rule.fix}\n  evidence: {rule.evidence}")
