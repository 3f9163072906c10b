"""Mends a recipe's text where there is one way only, and leaves every other byte. Pure."""

import re
from typing import Final

from gb10.models.load.loading import load_model_recipe
from gb10.models.load.model_recipe import ModelRecipe
from gb10.models.load.safe_yaml import UnreadableError, read_yaml

NAMED: Final = re.compile(r"\{\{|\}\}|\{[A-Za-z_][A-Za-z0-9_]*\}|[{}]")
BLANKS: Final = re.compile(r"\\[ \t]+$")
ENTRY: Final = re.compile(r"(\s+[A-Za-z_][A-Za-z0-9_]*:\s+)('[^']*'|\"(?:[^\"\\\\]|\\\\.)*\"|[^'\"#|>&*!{\[][^#]*)")
QUOTE: Final = re.compile(r'(?<!\\)(?:\\\\)*"')
MEANT: Final = re.compile(r"did you mean '(\w+)'\?")


def mended_text(text: str, file: str) -> tuple[str, list[str]]:
    """The mended text, and one line for each thing that was mended (``FILE:LINE: what``)."""
    lines = text.splitlines(keepends=True)
    recipe = load_model_recipe(text, file)
    done = [*_keys(recipe, lines), *_env(recipe, lines), *_command(recipe, lines), *_model(recipe, lines)]
    return "".join(lines), done


def _keys(recipe: ModelRecipe, lines: list[str]) -> list[str]:
    done = []
    for issue in recipe.issues:
        meant = MEANT.search(issue.text) if issue.code == "misspelt-key" else None
        line = lines[issue.line - 1] if meant and 0 < issue.line <= len(lines) else ""
        found = re.match(r"(\s*)([\w-]+)(\s*:)", line)
        if meant and found and f"\n{meant[1]}:" not in "\n" + "".join(lines):
            lines[issue.line - 1] = f"{found[1]}{meant[1]}{line[found.end(2) :]}"
            done.append(f"{issue.where}: {found[2]} is now {meant[1]}")
    return done


def _env(recipe: ModelRecipe, lines: list[str]) -> list[str]:
    """Quotation marks in variables of version 1, where the whole value stands on the line of its name."""
    done = []
    for name, value in recipe.env.items() if recipe.format == "v1" else ():
        number = recipe.keys.get(("env", name), 0)
        line = lines[number - 1].rstrip("\r\n") if 0 < number <= len(lines) else ""
        found = ENTRY.fullmatch(line)
        if isinstance(value, str) and QUOTE.search(value) and found and _value(found[2]) == value:
            escaped = QUOTE.sub(lambda mark: f"{mark[0][:-1]}\\{mark[0][-1]}", value).replace("'", "''")
            lines[number - 1] = f"{found[1]}'{escaped}'{lines[number - 1][len(line) :]}"
            done.append(f"{recipe.file}:{number}: the quotation marks of {name} have a backslash")
    return done


def _value(text: str) -> object:
    try:
        return read_yaml(text).value
    except UnreadableError:
        return None


def _command(recipe: ModelRecipe, lines: list[str]) -> list[str]:
    """Blanks after a backslash; in version 1 also braces that are meant as such."""
    start, command = recipe.texts.get(("command",)), recipe.command
    if start is None or command is None:
        return []
    done = []
    for number in range(start - 1, min(start - 1 + command.count("\n") + 1, len(lines))):
        body = lines[number].rstrip("\r\n")
        mended = BLANKS.sub(r"\\", body)
        if mended != body:
            done.append(f"{recipe.file}:{number + 1}: blanks after the backslash are gone")
        doubled = mended
        if recipe.format == "v1":  # a placeholder stays, a brace of its own is doubled
            doubled = NAMED.sub(lambda found: found[0] * 2 if found[0] in ("{", "}") else found[0], mended)
        if doubled != mended:
            done.append(f"{recipe.file}:{number + 1}: literal braces are doubled")
        lines[number] = doubled + lines[number][len(body) :]
    return done


def _model(recipe: ModelRecipe, lines: list[str]) -> list[str]:
    """``{model}`` of version 1: eugr's launcher takes it from ``defaults`` alone."""
    start = recipe.keys.get(("defaults",))
    wanted = recipe.format == "v1" and "{model}" in (recipe.command or "") and "model" not in recipe.defaults
    children = [line for at, line in recipe.keys.items() if len(at) == 2 and at[0] == "defaults"]
    if not wanted or start is None or recipe.model is None or not children or min(children) <= start:
        return []
    first = min(children)
    indent = re.match(r"\s*", lines[first - 1])
    lines.insert(first - 1, f"{indent[0] if indent else '  '}model: {recipe.model}\n")
    return [f"{recipe.file}:{first}: defaults has the model"]
