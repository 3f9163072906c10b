"""How model recipes are listed and shown, and the error of one that has mistakes."""

from collections.abc import Iterable, Sequence

from gb10.errors import UsageError
from gb10.models.issue import Issue, errors_of, lines_of
from gb10.models.load.model_recipe import ModelRecipe
from gb10.models.render.sparkrun import runtime_of


def document(recipe: ModelRecipe) -> dict[str, object]:
    """A recipe as data."""
    return {
        "name": recipe.name,
        "file": recipe.file,
        "format": recipe.format,
        "model": recipe.model,
        "runtime": runtime_of(recipe),
        "container": recipe.container,
        "description": recipe.text("description"),
        "nodes": nodes_of(recipe),
        "mods": list(recipe.mods),
        "defaults": {key: _plain(value) for key, value in recipe.defaults.items()},
        "issues": [issue.document for issue in recipe.issues],
    }


def _plain(value: object) -> object:
    """A value that JSON has; dates and the like as text."""
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def nodes_of(recipe: ModelRecipe) -> str:
    """``1``, ``2 or more``, ``1 to 4``, ``any``: what the recipe says of its nodes."""
    values = recipe.values
    if values.get("solo_only") or values.get("mode") == "solo":
        return "1"
    least = values.get("min_nodes") or (2 if values.get("cluster_only") else None)
    most = values.get("max_nodes")
    if least is None and most is None:
        return "any"
    if most is None:
        return f"{least} or more"
    return str(most) if (least or 1) == most else f"{least or 1} to {most}"


def listed(recipes: Sequence[ModelRecipe]) -> Iterable[str]:
    """One line a recipe: name, nodes, model, and what it is."""
    width = max(len(recipe.name) for recipe in recipes)
    for recipe in recipes:
        text = recipe.text("description") or ""
        yield f"{recipe.name:{width}}  nodes: {nodes_of(recipe)}  {recipe.model}  {text}".rstrip()


def lines(recipe: ModelRecipe) -> Iterable[str]:
    """A recipe as lines to print."""
    fields = {
        "recipe": f"{recipe.name} ({recipe.format})",
        "file": recipe.file,
        "what": recipe.text("description"),
        "model": recipe.model,
        "runtime": runtime_of(recipe),
        "image": recipe.container,
        "nodes": nodes_of(recipe),
        "mods": ", ".join(recipe.mods),
        **{f"set {key}": value for key, value in recipe.defaults.items()},
    }
    for name, value in fields.items():
        if value not in (None, ""):
            yield f"{name:28} {' '.join(str(value).split())}"


def refused(recipe: ModelRecipe, issues: Sequence[Issue]) -> UsageError:
    """The error of a recipe that is not rendered: every mistake with its line and fix."""
    errors = errors_of(issues)
    count = "1 error" if len(errors) == 1 else f"{len(errors)} errors"
    hint = "./build.py recipe fix mends some of them; --lenient PEER renders what that launcher renders"
    return UsageError(f"{recipe.file} is not rendered: {count}", where="\n".join(lines_of(errors)), hint=hint)
