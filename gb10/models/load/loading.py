"""Text of a model recipe to a loaded recipe. Nothing raises: what is wrong is an issue with its line. Pure."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import PurePath
from typing import Final

from packaging.version import InvalidVersion, Version

from gb10.models.issue import Issue, Level, in_order
from gb10.models.load.host_access import READERS, host_request
from gb10.models.load.known_keys import EXECUTOR, KNOWN, NOT_SUPPORTED, OF_SPARKRUN, OURS, SPARKRUN_READ, closest
from gb10.models.load.model_recipe import Format, ModelRecipe, Step, check_own_section
from gb10.models.load.safe_yaml import SafeDocument, UnreadableError, mapping_of, read_yaml

MAPPINGS = ("defaults", "env", "metadata", "runtime_config", "builder_config", "executor_config", "gb10")
LISTS = ("mods", "build_args")
EMPTY = {"mods": "[]", "defaults": "{}"}
TEXTS = ("model", "container", "runtime", "model_revision")
COUNTS = ("min_nodes", "max_nodes")


def check_recipe(recipe: ModelRecipe) -> Iterator[Issue]:
    """All findings of a loaded recipe."""
    yield from _keys(recipe)
    yield from _least_sparkrun(recipe)
    yield from _types(recipe)
    yield from _node_counts(recipe)
    yield from check_own_section(recipe)
    yield from host_request(recipe).issues
    if recipe.version not in ("1", "2"):
        text = f"recipe_version is '{recipe.version}'; there are 1 (eugr) and 2 (sparkrun), and this is read as 2"
        yield _issue(recipe, "warning", "recipe-version", text, 'write `recipe_version: "2"`', "recipe_version")


def _issue(recipe: ModelRecipe, level: Level, code: str, text: str, fix: str, *at: Step) -> Issue:
    return Issue(code=code, level=level, file=recipe.file, line=recipe.line(*at), text=text, fix=fix)


def _keys(recipe: ModelRecipe) -> Iterator[Issue]:
    for key in map(str, recipe.values):
        if key in NOT_SUPPORTED:
            text = f"not supported: {key} (sparkrun ≥ 0.3)"
            yield _issue(recipe, "error", "not-supported", text, "write what it would give into the recipe", key)
        elif key not in KNOWN:
            yield _unknown(recipe, key, closest(key, KNOWN), key)
    for key in recipe.section("executor_config"):
        if key in READERS and key not in EXECUTOR:
            text = f"sparkrun does not read {key!r}; gb10 gives it to the containers"
            yield _issue(recipe, "warning", "unknown-key", text, "write it below `gb10: host:`", "executor_config", key)
        elif key not in EXECUTOR:
            yield _unknown(recipe, key, closest(key, EXECUTOR), "executor_config", key)


def _least_sparkrun(recipe: ModelRecipe) -> Iterator[Issue]:
    """A recipe for a newer sparkrun than the one that is followed may have what is not read: it still runs."""
    key = "min_sparkrun_version"
    least = recipe.text(key)
    if least is None:
        return
    try:
        newer = Version(least) > Version(SPARKRUN_READ)
        text = f"it is for sparkrun {least} and newer; recipes are read here as {SPARKRUN_READ} reads them"
    except InvalidVersion:
        newer, text = True, f"{key} is no version: {least[:80]!r}"
    if newer:
        yield _issue(recipe, "warning", "sparkrun-version", text, "compare what starts: recipe render", key)


def _unknown(recipe: ModelRecipe, key: str, meant: str | None, *at: Step) -> Issue:
    name = repr(key[:80])
    if meant:
        text = f"unknown key {name}; did you mean '{meant}'?"
        return _issue(recipe, "error", "misspelt-key", text, f"write `{meant}:`", *at)
    return _issue(recipe, "warning", "unknown-key", f"unknown key {name}; nothing reads it", "remove it", *at)


def _types(recipe: ModelRecipe) -> Iterator[Issue]:
    for key in TEXTS:
        if isinstance(recipe.values.get(key), Mapping | list):
            yield _issue(recipe, "error", "wrong-type", f"'{key}' must be text", f"write `{key}: …` in one line", key)
    for key in MAPPINGS:
        value = recipe.values.get(key)
        if value is not None and not isinstance(value, Mapping):
            text, fix = f"'{key}' must be a mapping (key: value)", f"write `{key}:` and indented keys below"
            level: Level = "error" if value else "warning"  # the launchers take an empty list for an empty mapping
            yield _issue(recipe, level, "wrong-type", text, fix, key)
    for key in ("mods", "defaults") if recipe.format == "v1" else ():
        if key in recipe.values and recipe.values[key] is None:
            text = f"'{key}' has nothing below it: eugr's launcher of July 2026 stops with a TypeError"
            yield _issue(recipe, "warning", "wrong-type", text, f"remove it, or write `{key}: {EMPTY[key]}`", key)
    for key in LISTS:
        yield from _list(recipe, recipe.values.get(key), key)
    yield from _list(recipe, recipe.section("runtime_config").get("build_args"), "runtime_config", "build_args")


def _list(recipe: ModelRecipe, value: object, *at: Step) -> Iterator[Issue]:
    key = ".".join(map(str, at))
    if value is not None and not isinstance(value, list):
        text, fix = f"'{key}' must be a list", f"write `{at[-1]}:` and `- …` below"
        yield _issue(recipe, "error", "wrong-type", text, fix, *at)
    for index, one in enumerate(value if isinstance(value, list) else ()):
        if not isinstance(one, str):
            text, fix = f"entry {index + 1} of '{key}' is no text", "put it in quotes"
            yield _issue(recipe, "error", "wrong-type", text, fix, *at, index)


def _node_counts(recipe: ModelRecipe) -> Iterator[Issue]:
    for key in COUNTS:
        value = recipe.values.get(key)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            text = f"'{key}' must be a whole number of 1 or more, found {str(value)[:80]!r}"
            yield _issue(recipe, "error", "wrong-node-count", text, f"write `{key}: 1`", key)
            return
    if recipe.values.get("cluster_only") and recipe.values.get("solo_only"):
        text = "cluster_only and solo_only exclude each other: this recipe never runs"
        yield _issue(recipe, "error", "both-only-flags", text, "remove one of them", "solo_only")
    least, most = recipe.values.get("min_nodes"), recipe.values.get("max_nodes")
    if isinstance(least, int) and isinstance(most, int) and least > most:
        text = f"min_nodes is {least} and max_nodes is {most}: no number of nodes fits"
        yield _issue(recipe, "error", "wrong-node-count", text, "make max_nodes the larger one", "max_nodes")


MARK: Final = re.compile(r"^(?:recipe_version|model|command|container)[ \t]*:", re.MULTILINE)
"""A key of the top level that recipes have, and neither benchmarks nor files of other tools."""


def load_model_recipe(text: str, file: str) -> ModelRecipe:
    """The recipe of a file's text. A text that is no mapping has no values and one error."""
    try:
        document = read_yaml(text.replace("\r\n", "\n").replace("\r", "\n"))
    except UnreadableError as error:
        broken = Issue(
            code="not-yaml", level="error", file=file, line=error.line, text=error.text, fix="correct the YAML there"
        )
        return _broken(broken)
    values = mapping_of(document)
    if values is None:
        text, fix = "a recipe is a mapping (key: value)", "write at least `model: NAME`"
        return _broken(Issue(code="not-a-recipe", level="error", file=file, line=0, text=text, fix=fix))
    recipe = ModelRecipe(
        file=file,
        stem=PurePath(file).stem,
        format=_format(values),
        values=values,
        keys=document.keys,
        lines=document.lines,
        texts=document.texts,
    )
    return replace(recipe, issues=in_order((*_duplicates(document, file), *check_recipe(recipe))))


def _format(values: Mapping[object, object]) -> Format:
    """Version 1 with keys that sparkrun alone reads is a recipe for sparkrun, which takes both versions alike."""
    if str(values.get("recipe_version")) == "1" and not set(OF_SPARKRUN) & set(values):
        return "v1"
    return "gb10" if OURS in values else "v2"


def is_recipe(text: str) -> bool:
    """Whether a file among recipes is meant as one: it has a key that others lack. A broken file has one, too."""
    return MARK.search(text) is not None


def _broken(issue: Issue) -> ModelRecipe:
    return ModelRecipe(file=issue.file, stem=PurePath(issue.file).stem, format="v2", values={}, issues=(issue,))


def _duplicates(document: SafeDocument, file: str) -> list[Issue]:
    return [
        Issue(
            code="duplicate-key",
            level="error",
            file=file,
            line=line,
            text=f"the key {at[-1]!r} stands twice (first in line {first}); the last one wins in silence",
            fix="remove one of them",
        )
        for at, line, first in document.duplicates
    ]
