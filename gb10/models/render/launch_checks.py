"""What stops sparkrun 0.4.2 before it renders anything: missing keys, wrong types, a builder that it lacks. Pure."""

import re
import shlex
from typing import Final

from gb10.models.load.model_recipe import ModelRecipe
from gb10.models.render.findings import Findings
from gb10.models.render.parameters import Parameters
from gb10.models.render.topology import shares_nodes

BUILDERS: Final = ("docker-pull", "eugr")
CACHE_FLAGS: Final = ("--kv-cache-memory-bytes", "--kv-cache-memory")
BYTES: Final = re.compile(r"([0-9]+)[kKmMgGtT]?|([0-9]+[.][0-9]+)[kmgt]")
"""8589934592, 8G (binary), 8g (decimal), 1.5g; a fraction has a decimal suffix."""


def check_shape(recipe: ModelRecipe, found: Findings) -> None:
    """Record what is missing or of a wrong type."""
    if not recipe.model:
        found.stop("missing-key", "the key 'model' is missing", "add `model: ORGANISATION/NAME`", "model")
    command = recipe.values.get("command")
    if command is not None and not isinstance(command, str):
        found.stop("wrong-type", "'command' must be text", "write `command: |` and the command below", "command")
    if isinstance(recipe.values.get("model"), dict | list):
        found.stop("wrong-type", "'model' must be text", "write `model: …` in one line", "model")
    for key in ("defaults", "env"):
        if recipe.values.get(key) and not isinstance(recipe.values[key], dict):
            found.stop("wrong-type", f"'{key}' must be a mapping (key: value)", f"write `{key}:` and keys below", key)
    least = recipe.values.get("min_nodes") or (2 if recipe.values.get("cluster_only") else 1)
    most = 1 if recipe.values.get("solo_only") else recipe.values.get("max_nodes")
    if isinstance(least, int) and isinstance(most, int) and least > most:
        found.stop("wrong-node-count", f"min_nodes is {least} and max_nodes is {most}", "correct them", "max_nodes")
    builder = recipe.text("builder")
    if builder and builder not in BUILDERS:
        text = f"sparkrun has no builder '{builder[:80]}'"
        found.stop("unknown-builder", text, f"write one of {', '.join(BUILDERS)}, or leave it out", "builder")


def check_runtime(recipe: ModelRecipe, parameters: Parameters, runtime: str, found: Findings) -> None:
    """Record what a runtime cannot serve; sparkrun looks at the recipe's own sizes, not at those of ``-o``."""
    tensor, pipeline = parameters.size("tensor_parallel"), parameters.size("pipeline_parallel")
    shards, replicas = _own_size(recipe, "tensor_parallel"), _own_size(recipe, "data_parallel")
    least = recipe.values.get("min_nodes") or (2 if recipe.values.get("cluster_only") else 1)
    problem = ""
    if runtime in ("vllm-ray", "eugr-vllm", "llama-cpp") and replicas > 1:
        problem = f"{runtime} has no data parallelism, and data_parallel is {replicas}"
    elif runtime == "llama-cpp" and tensor > 1 and pipeline > 1:
        problem = "llama.cpp splits a model by rows (tensor_parallel) or by layers (pipeline_parallel), not by both"
    elif runtime == "sglang" and shares_nodes(recipe, parameters) and replicas != shards:
        problem = f"attention with data parallelism needs equal sizes, and {shards} is not {replicas}"
    elif runtime == "modular-max" and least != 1:
        problem = "MAX serves on one node, and the recipe asks for several"
    elif runtime == "sglang" and _lacks_tokenizer(recipe):
        problem = "SGLang needs a tokenizer beside a GGUF model: --tokenizer-path and the model it was made of"
    if problem:
        found.stop("runtime-cannot", problem, "change the parameter, or the runtime", "defaults")


def _own_size(recipe: ModelRecipe, key: str) -> int:
    value = recipe.defaults.get(key)
    return int(value) if isinstance(value, int | float) or (isinstance(value, str) and value.isdecimal()) else 1


def _lacks_tokenizer(recipe: ModelRecipe) -> bool:
    model, command = recipe.model or "", recipe.command or ""
    if "gguf" not in model.lower() and not re.search(r":[^/:]+$", model):
        return False
    written = "--tokenizer-path" in command or "{tokenizer_path}" in command
    given = bool(recipe.defaults.get("tokenizer_path"))
    return not written and (bool(command) or not given)


def check_cache_size(recipe: ModelRecipe, parameters: Parameters, found: Findings) -> None:
    """Record a size of the KV cache that is no number of bytes; sparkrun reads it before it starts."""
    value = parameters.get("kv_cache_memory_bytes")
    value = _written(recipe.command or "", parameters) if value is None else value
    if value is None or (type(value) is int and value > 0):
        return
    size = BYTES.fullmatch(value.strip()) if isinstance(value, str) else None
    if size is None or float(size[1] or size[2]) == 0:
        text = f"the size of the KV cache, {str(value)[:80]!r}, is no number of bytes"
        found.stop("wrong-type", text, "write bytes, as in 8589934592 or 8G", "command")


def _written(command: str, parameters: Parameters) -> object:
    """The size that a command names; a placeholder's value is the parameter's."""
    try:
        words = shlex.split(command.replace("\\\n", " "))
    except ValueError:
        return None
    value: object = None
    for index, word in enumerate(words):
        name, equals, inline = word.partition("=")
        if name in CACHE_FLAGS:
            text = inline if equals else words[index + 1] if index + 1 < len(words) else ""
            value = parameters.get(text[1:-1]) if text.startswith("{") and text.endswith("}") else text
            value = "" if value is None else value
    return value
