"""Text of a model recipe to a loaded recipe. Nothing raises: what is wrong is an issue with its line. Pure."""

import re
from dataclasses import replace
from pathlib import PurePath
from typing import Final

from gb10.models.issue import Issue, in_order
from gb10.models.load.checks import check_recipe
from gb10.models.load.model_recipe import Format, ModelRecipe
from gb10.models.load.safe_yaml import SafeDocument, UnreadableError, mapping_of, read_yaml

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
        format=_format(str(values.get("recipe_version")), "gb10" in values),
        values=values,
        keys=document.keys,
        lines=document.lines,
        texts=document.texts,
    )
    return replace(recipe, issues=in_order((*_duplicates(document, file), *check_recipe(recipe))))


def is_recipe(text: str) -> bool:
    """Whether a file among recipes is meant as one: it has a key that others lack. A broken file has one, too."""
    return MARK.search(text) is not None


def _format(version: str, ours: bool) -> Format:
    return "v1" if version == "1" else "gb10" if ours else "v2"


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
