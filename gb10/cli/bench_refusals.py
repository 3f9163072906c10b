"""Rows of a matrix that `recipe lint` refuses: the recipe as the row changes it, judged by the same rules."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gb10.cli.bench_sides import ARGS, IMAGE, VARIANT, Starting
from gb10.cli.recipe_files import find_recipe, load_file
from gb10.models.issue import errors_of
from gb10.models.lint.linting import lint
from gb10.models.lint.rule import load_rules
from gb10.models.load.known_keys import OURS
from gb10.models.load.model_recipe import ModelRecipe
from gb10.models.load.own_section import own_section
from gb10.serving.trial.axes import MatrixRow
from gb10.serving.trial.template import ENV


def refusals(starting: Starting, rows: Sequence[MatrixRow]) -> dict[str, str]:
    """Why lint refuses a row, by its name; none for servers that no recipe starts. Raises UsageError."""
    if starting.recipe is None:
        return {}
    recipe, rules = load_file(find_recipe(starting.recipe)), load_rules()
    found = {row.name: errors_of(lint(as_changed(recipe, starting, row.settings), rules)) for row in rows}
    return {name: f"lint refuses it: {issues[0].code}: {issues[0].text}" for name, issues in found.items() if issues}


def as_changed(recipe: ModelRecipe, starting: Starting, settings: Mapping[str, str]) -> ModelRecipe:
    """The recipe with a row's settings in it. Pure."""
    variants = own_section(recipe).variants
    name = settings.get(VARIANT) or starting.wanted.request.variant or ""
    chosen = variants[name].overrides if name in variants else ()
    own = {key: value for key, value in settings.items() if key not in (ARGS, IMAGE, VARIANT)}
    changes = {**dict(chosen), **dict(starting.wanted.request.overrides), **own}
    image = settings.get(IMAGE) or starting.wanted.image or recipe.container
    command = f"{(recipe.command or '').rstrip()} {settings.get(ARGS, '')}".rstrip()
    env = {key.removeprefix(ENV): value for key, value in changes.items() if key.startswith(ENV)}
    section = recipe.values.get(OURS)
    defaults = {key: value for key, value in changes.items() if not key.startswith(ENV)}
    values = {
        **recipe.values,
        "defaults": {**recipe.defaults, **defaults},
        "env": {**recipe.env, **env},
        OURS: {**(section if isinstance(section, dict) else {}), "variants": {}},  # no row runs those that it names
        "command": command,
        "container": image,
    }
    return replace(recipe, values=values)
