"""Pulled weights for `run`: the containers see the files that each node has, and ask no Hub."""

import re
from dataclasses import replace
from typing import Final

from gb10.core.reporter import Reporter
from gb10.models.load.model_recipe import ModelRecipe
from gb10.models.render.container import MODELS
from gb10.serving.run.service import Rank, Service
from gb10.serving.weights.hub_cache import folder_name
from gb10.serving.weights.model_lock import WeightsLock

OFFLINE: Final = "HF_HUB_OFFLINE"
MORE: Final = re.compile(r"--(?:tokenizer(?:-path)?|hf-config-path|lora-modules|lora-paths)[=\s]")
"""Options that name other repositories of the Hub, which were not pulled."""


def with_weights(reporter: Reporter, service: Service, recipe: ModelRecipe, lock: WeightsLock | None) -> Service:
    """The service whose containers see the files that each node has; without a lock as it is."""
    if lock is None:
        return service
    return replace(service, ranks=tuple(_with_weights(reporter, rank, recipe, lock) for rank in service.ranks))


def _with_weights(reporter: Reporter, rank: Rank, recipe: ModelRecipe, lock: WeightsLock) -> Rank:
    host = rank.node.host
    place = lock.place(host)
    if place is None:
        reporter.say_once(
            f"{host} has no copy of the weights, and its server downloads them: recipe pull --host {host}"
        )
        return rank
    if lock.models[0].repo not in rank.container.command:
        reporter.say_once(f"{lock.models[0].repo} was pulled, and another model is served: its server downloads that")
        return rank
    hub = _hub_folder(recipe)
    mounts = {f"{place.cache}/{name}": f"{hub}/{name}" for name in (folder_name(one.repo) for one in lock.models)}
    offline = {} if OFFLINE in recipe.env or MORE.search(rank.container.command) else {OFFLINE: "1"}
    environment = {**offline, **rank.container.environment}
    return replace(rank, container=replace(rank.container, environment=environment, mounts=mounts))


def _hub_folder(recipe: ModelRecipe) -> str:
    """Where the engine in the container looks for models of the Hub."""
    env = {name: str(value).rstrip("/") for name, value in recipe.env.items()}
    return env.get("HF_HUB_CACHE") or f"{env.get('HF_HOME') or MODELS[1]}/hub"
