"""The serve command of a recipe that has none: sparkrun 0.4.2 makes it of the parameters. Pure."""

import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from gb10.models.load.model_recipe import ModelRecipe
from gb10.models.render.engine_flags import SGLANG, VLLM, FlagTable, is_on
from gb10.models.render.parameters import Parameters
from gb10.models.render.placeholders import substitute
from gb10.models.render.server_flags import ATLAS, ATLAS_TRUTHS, LLAMA, MAX, TENSORRT, TOKENARY

Build = Callable[[ModelRecipe, Parameters], str]
OWN_FLAGS: Final = frozenset({"tensor_parallel", "distributed_executor_backend"})
"""Parameters of vLLM that are written before or after the table's flags."""


def built_command(recipe: ModelRecipe, parameters: Parameters, runtime: str) -> str:
    """The command of a runtime; the flags that only a launch of several nodes needs are not in it."""
    return BUILDERS[runtime](recipe, parameters)


def _vllm(recipe: ModelRecipe, parameters: Parameters) -> str:
    words = ["vllm", "serve", parameters.model, *_revision(recipe, parameters)]
    return _with_flags(words, "-tp", VLLM, parameters, OWN_FLAGS)


def _sglang(_: ModelRecipe, parameters: Parameters) -> str:
    """sparkrun fills the recipe's commit into this one parameter, and takes a second name of the draft model's."""
    words = ["sglang", "serve", "--model-path", shlex.quote(parameters.model)]
    values = dict(parameters.values)
    revision = values.get("revision")
    if isinstance(revision, str) and "{model_revision}" in revision:
        values["revision"] = substitute(revision, parameters.get)[0]
    if not values.get("speculative_draft_model_path") and values.get("speculative_draft_model"):
        values["speculative_draft_model_path"] = values["speculative_draft_model"]
    skipped = frozenset({"tensor_parallel", "data_parallel"})
    return _with_flags(words, "--tp-size", SGLANG, replace(parameters, values=values), skipped)


def _llama(_: ModelRecipe, parameters: Parameters) -> str:
    return llama_command(parameters)


def llama_command(parameters: Parameters, *, remote: bool = False) -> str:
    """llama.cpp's command; ``remote``: for the head of several nodes, which splits as the recipe says."""
    model = parameters.model
    source = "-hf" if "/" in model and not model.lower().endswith(".gguf") else "-m"
    mode = (None if remote else split_mode(parameters)) or parameters.get("split_mode") or "layer"
    own = {**(parameters.borrowed if remote else {}), "split_mode": mode}
    words = ["llama-server", source, model]
    words += LLAMA.words(lambda name: own[name] if name in own else parameters.get(name), frozenset())
    attention = parameters.get("flash_attn")
    if attention is not None:
        words += ["--flash-attn", ("off", "on")[attention] if isinstance(attention, bool) else str(attention)]
    for name in ("webui", "mmap"):
        value = parameters.get(name)
        words += [f"--no-{name}"] * (value is not None and not is_on(value))
    return " ".join(words)


def split_mode(parameters: Parameters) -> str | None:
    """How llama.cpp splits a model over GPUs: by rows for tensor parallelism, by layers for pipelines."""
    if parameters.size("tensor_parallel") > 1:
        return "row"
    return "layer" if parameters.size("pipeline_parallel") > 1 else None


def _tensorrt(_: ModelRecipe, parameters: Parameters) -> str:
    backend = [] if parameters.get("backend") else ["--backend", "pytorch"]
    return " ".join(["trtllm-serve", parameters.model, *backend, *TENSORRT.words(parameters.get, frozenset())])


def _atlas(_: ModelRecipe, parameters: Parameters) -> str:
    return atlas_command(parameters)


def atlas_command(parameters: Parameters, *, worker: bool = False) -> str:
    """Atlas's command; a worker of several nodes does not listen for requests."""

    def value_of(name: str) -> object:
        value = parameters.get(name)
        if name == "api_key":
            return value or parameters.get("auth_token") or value
        folded = str(value).strip().lower()
        return folded if name in ATLAS_TRUTHS and folded in ("true", "false") else value

    words = ["spark", "serve", parameters.model, *["--port", "0"] * worker]
    return " ".join([*words, *ATLAS.words(value_of, frozenset({"port"} if worker else ()))])


def _max(_: ModelRecipe, parameters: Parameters) -> str:
    words = ["max", "serve", "--model", parameters.model, "--port", str(parameters.get("port") or 8000)]
    devices = parameters.get("devices")
    gpus = parameters.size("tensor_parallel")
    if devices or gpus > 1:
        words += ["--devices", str(devices) if devices else f"gpu:{','.join(map(str, range(gpus)))}"]
    return " ".join([*words, *MAX.words(parameters.get, frozenset())])


def _tokenary(_: ModelRecipe, parameters: Parameters) -> str:
    served = f"--server --port {parameters.get('port') or 8000} --tp-size {parameters.get('tensor_parallel') or 1}"
    return f"{tokenary_base(parameters)} {served}"


def tokenary_base(parameters: Parameters) -> str:
    """tokenary's command without the flags that each rank has of its own."""
    binary = parameters.get("command_binary")
    words = ["tokenary" if binary is None else str(binary), "--model", parameters.model]
    return " ".join(filter(None, [*words, *TOKENARY.words(parameters.get, frozenset())]))


def _with_flags(
    words: list[str], tensor: str, table: FlagTable, parameters: Parameters, skipped: frozenset[str]
) -> str:
    size = parameters.get("tensor_parallel")
    sized = [tensor, str(size)] if size else []
    return " ".join([*words, *sized, *table.words(parameters.get, skipped)])


def _revision(recipe: ModelRecipe, parameters: Parameters) -> list[str]:
    revision = recipe.values.get("model_revision")
    local = parameters.model.startswith("/") or ":" in parameters.model
    return ["--revision", shlex.quote(str(revision))] if revision and not local else []


BUILDERS: Final[Mapping[str, Build]] = {
    **dict.fromkeys(("vllm-distributed", "vllm-ray", "eugr-vllm"), _vllm),
    "sglang": _sglang,
    "llama-cpp": _llama,
    "trtllm": _tensorrt,
    "atlas": _atlas,
    "modular-max": _max,
    "tokenary": _tokenary,
}
"""By runtime."""
