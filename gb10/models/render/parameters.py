"""The parameters of a recipe as sparkrun sees them: ``--set`` over ``defaults`` over what the platform sets. Pure."""

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gb10.models.load.model_recipe import ModelRecipe
from gb10.models.render.placeholders import unescaped
from gb10.models.render.rendered import Findings

PLATFORM: Final[Mapping[str, Mapping[str, object]]] = {
    **{name: {"gpu_memory_utilization": 0.8} for name in ("vllm-distributed", "vllm-ray", "eugr-vllm", "sglang")},
    "llama-cpp": {"mmap": False},
}
"""What sparkrun sets on GB10 where neither recipe nor user says anything."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Parameters:
    """What placeholders and flags are filled from; ``env`` are the variables that ``--set env.NAME=VALUE`` sets.

    ``borrowed`` are parameters that took their value from one of another name, with their own value.
    """

    values: Mapping[str, object]
    env: Mapping[str, str]
    model: str
    borrowed: Mapping[str, object] = field(default_factory=dict)

    def get(self, key: str) -> object:
        """The value of a parameter; None when nothing sets it."""
        return self.values.get(key)

    def size(self, key: str) -> int:
        """A parallel size; raises ValueError when it is no number."""
        value = self.values.get(key)
        return 1 if value is None else int(value) if isinstance(value, int | float) else int(str(value))


def typed(text: str) -> object:
    """A text of the command line as switch, number or text."""
    if text.lower() in ("true", "yes", "false", "no"):
        return text.lower() in ("true", "yes")
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def parameters_of(
    recipe: ModelRecipe, overrides: tuple[tuple[str, str], ...], runtime: str, found: Findings
) -> Parameters:
    """The recipe's parameters with the user's on top; what cannot be set is an error in ``found``."""
    given = {key.strip(): typed(text.strip()) for key, text in overrides}
    env = {key[4:]: str(value) for key, value in given.items() if key.startswith("env.")}
    defaults = {key: unescaped(value) for key, value in recipe.defaults.items()}
    defaults = {**defaults, **{key: one for key, one in PLATFORM.get(runtime, {}).items() if key not in defaults}}
    model = recipe.model or ""
    defaults.setdefault("model", model)
    if recipe.values.get("model_revision"):
        defaults.setdefault("model_revision", recipe.values["model_revision"])
    defaults.setdefault("resolved_model_path", model)
    plain = {key: value for key, value in given.items() if not key.startswith("env.")}
    if model.startswith("/") and not {"served_model_name"} & {*plain, *recipe.defaults}:
        plain["served_model_name"] = model.rstrip("/").rpartition("/")[2] or model
    values = {**defaults, **{key: value for key, value in plain.items() if not _is_path(key)}}
    for key in sorted((key for key in plain if _is_path(key)), key=lambda one: one.count(".")):
        root = key.partition(".")[0]
        if values.get(root) == defaults.get(root) and root in recipe.defaults:
            values[root] = recipe.defaults[root]  # as written: a field of doubled braces cannot be set
        _set_field(values, key, plain[key], found)
    own = {"ctx_size": values.get("ctx_size")}
    borrows = runtime == "llama-cpp" and "ctx_size" not in plain and _set_context(values, "max_model_len" in plain)
    return Parameters(values=values, env=env, model=model, borrowed=own if borrows else {})


def _set_context(values: dict[str, object], chosen: bool) -> bool:
    """For llama.cpp the length of the context has another name; the user's ``max_model_len`` sets it, too."""
    length = values.get("max_model_len")
    wanted = chosen or (length is not None and values.get("ctx_size") is None)
    if wanted:
        values["ctx_size"] = length
    return wanted


def _is_path(key: str) -> bool:
    return "." in key and not key.startswith("_") and all(key.split("."))


def _set_field(values: dict[str, object], key: str, value: object, found: Findings) -> None:
    """Set one field of a mapping, or of a text that is a JSON object."""
    root, *path = key.split(".")
    place = mapping_from(values.get(root))
    if place is None:
        text = f"--set {key} sets a field of '{root}', which is no mapping"
        found.stop("wrong-override", text, f"set all of it: --set '{root}={{…}}'", "defaults", root)
        return
    values[root] = place
    for step in path[:-1]:
        below = {} if place.get(step) is None else mapping_from(place[step])
        if below is None:
            found.stop("wrong-override", f"--set {key}: '{step}' is no mapping", "set the field above it")
            return
        place[step] = place = below
    place[path[-1]] = _leaf(value)


def mapping_from(value: object) -> dict[str, object] | None:
    """A copy of a mapping, or of a JSON object in a text; None for anything else."""
    if isinstance(value, Mapping):
        return copy.deepcopy(dict(value))
    leaf = _leaf(value)
    return leaf if isinstance(leaf, dict) else None


def _leaf(value: object) -> object:
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value
