"""``recipe lint``: what is wrong with recipes, by rules with a reason."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from gb10.cli.recipe_files import SUFFIXES, find_recipe, load_file
from gb10.cli.verb import JsonOption, print_json, talks
from gb10.errors import EmptySelectionError, UsageError
from gb10.host.talk import Talk
from gb10.lint.linting import lint
from gb10.lint.rule import Rule, load_rules
from gb10.models.issue import LEVELS, Issue, errors_of, lines_of

MOST = 10_000
"""Files of one call."""


def shown_levels(text: str) -> tuple[str, ...]:
    """The levels from the worst to this one; raises UsageError for another word."""
    if text not in LEVELS:
        raise UsageError(f"unknown level {text!r}", hint=f"valid: {', '.join(LEVELS)}")
    return LEVELS[: LEVELS.index(text) + 1]


@talks
def lint_recipes(
    *,
    talk: Talk,
    recipes: Annotated[
        list[str] | None, typer.Argument(metavar="FILE|NAME|DIR", help="Recipe files, folders of them, or ours.")
    ] = None,
    release: Annotated[
        str | None, typer.Option("--release", metavar="VERSION", help="The engine's release. Default: the image's.")
    ] = None,
    level: Annotated[
        str, typer.Option("--level", metavar="LEVEL", help="The least level to print: error, warning or note.")
    ] = "note",
    rules: Annotated[bool, typer.Option("--rules", help="List the rules with their evidence, and stop.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Check recipes by what the field has learnt; nothing is started.

    Exit 2 when a recipe has an error.

    \b
    ./build.py recipe lint qwen3-0.6b
    ./build.py recipe lint theirs/ --level warning
    ./build.py recipe lint --rules
    """
    levels, known = shown_levels(level), load_rules()
    if rules:
        _print_rules(known, as_json=as_json)
        return
    found = {path: lint(load_file(path), known, release=release) for path in _files(recipes or [])}
    shown = {path: [one for one in issues if one.level in levels] for path, issues in found.items()}
    if as_json:
        print_json({"schema": "gb10/recipe-lint/v1", "recipes": [_document(path, shown[path]) for path in shown]})
    else:
        for line in (line for issues in shown.values() for line in lines_of(issues)):
            print(line)
        talk.say(_summary(found))
    if any(map(errors_of, found.values())):
        raise typer.Exit(UsageError.code)


def _files(names: Sequence[str]) -> Iterator[Path]:
    """The files of the arguments; of a folder all recipes below it, links left out."""
    if not names:
        raise UsageError("no recipe is named", hint="name files, folders, or ours: ./build.py recipe list")
    for name in names:
        folder = Path(name)
        if not folder.is_dir():
            yield find_recipe(name)
            continue
        below = sorted(
            path for path in folder.rglob("*") if path.suffix in SUFFIXES and path.is_file() and not path.is_symlink()
        )
        if not below or len(below) > MOST:
            problem = f"more than {MOST} recipes" if below else "no recipe (.yaml, .yml)"
            raise EmptySelectionError(f"{name} holds {problem}", hint="name the files")
        yield from below


def _document(path: Path, issues: Sequence[Issue]) -> dict[str, object]:
    return {"file": str(path), "issues": [issue.document for issue in issues]}


def _summary(found: dict[Path, tuple[Issue, ...]]) -> str:
    counts = [sum(issue.level == level for issues in found.values() for issue in issues) for level in LEVELS]
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
