"""Which kernels of FlashInfer a build compiles: the recipe's set, another by name, or what a model asks for."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from gb10.errors import FetchError, UsageError
from gb10.kernel_sets import merged
from gb10.model import Toolkit
from gb10.models import model_set, set_name
from gb10.schema import Recipe

CONFIG = "config.json"


def with_set(recipe: Recipe, kernels: str) -> Recipe:
    """The recipe with another set of its engine's kernels; raises UsageError when it compiles none."""
    name = _wheel(recipe)
    wheel = recipe.wheels[name].model_copy(update={"kernels": kernels})
    return recipe.model_copy(update={"wheels": {**recipe.wheels, name: wheel}})


def with_model(recipe: Recipe, toolkit: Toolkit, model: str, env: Mapping[str, str]) -> tuple[Recipe, Toolkit]:
    """The recipe with the set of a model, and the toolkit that holds it. Raises UsageError, FetchError."""
    short = Path(model).resolve().name.removesuffix(".json") if Path(model).exists() else model
    source = recipe.wheels[_wheel(recipe)].source
    name, releases = f"{source}-{set_name(short)}", toolkit.kernel_sets[f"{source}-core"]["flashinfer"]
    raw = {**toolkit.kernel_sets, name: model_set(read_config(model, env), short, releases)}
    return with_set(recipe, set_name(short)), replace(
        toolkit, kernel_sets={**toolkit.kernel_sets, name: merged(name, raw)}
    )


def _wheel(recipe: Recipe) -> str:
    """The wheel of FlashInfer's kernels."""
    name = next((name for name, wheel in recipe.wheels.items() if wheel.method == "aot"), None)
    if name is None:
        raise UsageError(f"the {recipe.engine} recipe compiles no kernels of FlashInfer",
                         hint="add a wheel of method aot to its wheels")  # fmt: skip
    return name


def read_config(model: str, env: Mapping[str, str]) -> Mapping[str, Any]:
    """A model's config: of a folder or file, else of the hub. Raises UsageError, FetchError."""
    path = Path(model, CONFIG) if Path(model).is_dir() else Path(model)
    text = path.read_text(encoding="utf-8") if path.is_file() else _of_hub(model, env)
    try:
        found: Mapping[str, Any] = json.loads(text)
    except ValueError as error:
        raise UsageError(f"the config of {model} is no JSON", where=str(error)) from error
    return found


def _of_hub(model: str, env: Mapping[str, str]) -> str:
    """The newest config of a model on the hub."""
    from gb10.hub import open_hub  # noqa: PLC0415 - a third of a second, for this alone

    hub = open_hub(model, env)
    with TemporaryDirectory(prefix="gb10-") as folder:
        found = hub.fetch(CONFIG, hub.head(), Path(folder))
        if found is None:
            raise FetchError(f"{model} has no {CONFIG}", hint="name a local folder or file with its config")
        return found.read_text(encoding="utf-8")
