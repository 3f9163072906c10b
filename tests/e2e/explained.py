"""What the tests of explain share: the engine of a recipe, unpacked, and the models that it is asked about."""

import json
from pathlib import Path

from gb10.image.context import Context
from gb10.image.explain.engine_choice import ready_to_ask
from gb10.image.lock.lockfile import load_lock, load_recipe, lock_path
from gb10.image.plan.catalog import ROOT

MODELS = ROOT / "tests/unit/data/explain"


def files_of(ctx: Context, engine: str) -> Path:
    """The folder with the engine's files."""
    path = ctx.catalog.recipe(engine)
    return ready_to_ask(ctx, load_recipe(path), load_lock(lock_path(path))).files


def config_of(name: str) -> dict[str, object]:
    """The config.json of a model."""
    config: dict[str, object] = json.loads((MODELS / f"{name}.json").read_text(encoding="utf-8"))
    return config
