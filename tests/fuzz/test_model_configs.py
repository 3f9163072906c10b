"""Configs of real models with odd values: each gives an estimate of its memory, or one sentence."""

import json
import random
from dataclasses import replace
from typing import Any

import pytest

from gb10.errors import UsageError
from gb10.models.memory.estimating import estimate
from gb10.models.memory.model import FOLDER, known_names, model_of
from tests.unit.models.test_memory import DEFAULTS
from tests.unit.models.test_memory_engines import MACHINE, VLLM

ODD: tuple[Any, ...] = (None, True, -1, 0, 1, 10**6, 10**30, 0.5, "", "x", [], [1], [[]], {}, {"a": 1}, [None] * 50)


@pytest.mark.parametrize("name", [*known_names(), *DEFAULTS])
def test_changed_configs_give_a_model_or_one_sentence(name: str) -> None:
    """15 configs of each model with up to three odd values, in any place."""
    path = FOLDER / f"{name.replace('/', '--', 1)}.json"
    content = DEFAULTS.get(name) or json.loads(path.read_text(encoding="utf-8"))
    chance = random.Random(name)  # noqa: S311 - cases that can be made again
    for _ in range(15 if "config" in content else 0):
        config = json.loads(json.dumps(content["config"]))
        for _ in range(chance.randint(1, 3)):
            place = chance.choice([config, *(one for one in config.values() if isinstance(one, dict))])
            if place:
                place[chance.choice(sorted(place))] = chance.choice(ODD)
        try:
            estimate(model_of(config, name, "its config"), replace(VLLM, cache_type="auto"), MACHINE)
        except UsageError as error:
            assert "\n" not in error.message
