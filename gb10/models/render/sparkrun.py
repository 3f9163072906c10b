"""Renders as sparkrun 0.4.2 does: the serve command, and the same with a rendezvous for each node.

Facts of its behaviour are from reading and running it. Pure.
"""

import re
import shlex
from dataclasses import dataclass, replace
from typing import Final

from gb10.models.load.model_recipe import ModelRecipe, own_section
from gb10.models.render.built_command import SERVE_COMMANDS, split_mode
from gb10.models.render.nodes import (
    Meeting,
    Ranks,
    Topology,
    api_port,
    check_nodes,
    meeting_ports,
    rank_commands,
    shares_nodes,
    topology_of,
)
from gb10.models.render.parameters import Parameters, parameters_of
from gb10.models.render.placeholders import substitute, with_marks
from gb10.models.render.rendered import Findings, RenderedRecipe, RenderRequest
from gb10.models.render.serve_line import appended, mended, with_flag

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
    value = _size_in_command(recipe.command or "", parameters) if value is None else value
    if value is None or (type(value) is int and value > 0):
        return
    size = BYTES.fullmatch(value.strip()) if isinstance(value, str) else None
    if size is None or float(size[1] or size[2]) == 0:
        text = f"the size of the KV cache, {str(value)[:80]!r}, is no number of bytes"
        found.stop("wrong-type", text, "write bytes, as in 8589934592 or 8G", "command")


def _size_in_command(command: str, parameters: Parameters) -> object:
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


RUNTIMES: Final = (
    "vllm-distributed",
    "vllm-ray",
    "sglang",
    "llama-cpp",
    "trtllm",
    "atlas",
    "eugr-vllm",
    "modular-max",
    "tokenary",
)
FIRST_WORDS: Final = {
    "vllm": re.compile(r"vllm\s+serve\b"),
    "sglang": re.compile(r"(?:sglang\s+serve|python3?\s+-m\s+sglang\.launch_server)\b"),
    "llama-cpp": re.compile(r"llama-server\b"),
    "trtllm": re.compile(r"(?:trtllm-serve|mpirun\b.*trtllm)"),
}
RAY: Final = re.compile(r"--distributed-executor-backend\s+ray\b")
SERVED_NAME: Final = re.compile(r"--(?:served-model-name|model-name|alias)[=\s]+(\S+)", re.IGNORECASE)
IMAGES: Final = {
    **dict.fromkeys(("vllm-distributed", "vllm-ray"), "ghcr.io/spark-arena/dgx-vllm-eugr-nightly-tf5:latest"),
    "eugr-vllm": "vllm-node",
    "sglang": "scitrera/dgx-spark-sglang:latest",
    "llama-cpp": "scitrera/dgx-spark-llama-cpp:latest",
    "trtllm": "nvcr.io/nvidia/tensorrt-llm/release:latest",
    "atlas": "azeezish/atlas-gb10:latest",
    "modular-max": "modular/max-nvidia-full:latest",
    "tokenary": "scitrera/tokenary:latest",
}
"""The image of a recipe that names none."""
SPLIT: Final = re.compile(r"(?<!\S)--split-mode(?:=|\s+)\S+")
VLLM_KIND: Final = ("vllm-distributed", "vllm-ray", "eugr-vllm")
NAME_FLAGS: Final = {
    "sglang": "--served-model-name",
    "modular-max": "--served-model-name",
    "llama-cpp": "--alias",
    "atlas": "--model-name",
}
TENSORRT_FILE: Final = (
    "free_gpu_memory_fraction",
    "kv_cache_dtype",
    "kv_cache_enable_block_reuse",
    "cuda_graph_padding",
    "cuda_graph_max_batch_size",
    "moe_backend",
    "print_iter_log",
)
"""Parameters that TensorRT-LLM takes from a file, which sparkrun writes."""
TENSORRT_FLAG: Final = "--extra_llm_api_options"
TENSORRT_PATH: Final = "/tmp/extra-llm-api-config.yml"  # noqa: S108 - a path inside the container


@dataclass(frozen=True, kw_only=True, slots=True)
class Launch:
    """What a serve command depends on beside the parameters; ``several`` nodes run it."""

    runtime: str
    topology: Topology
    several: bool


def render_sparkrun(recipe: ModelRecipe, request: RenderRequest, found: Findings) -> RenderedRecipe:
    """What sparkrun makes of a recipe; raises StoppedError when it would end with an error."""
    found.refuse()
    check_shape(recipe, found)
    found.refuse()
    runtime = runtime_of(recipe, request.overrides)
    if runtime not in RUNTIMES:
        found.stop("unknown-runtime", f"no runtime '{runtime}'", f"write one of {', '.join(RUNTIMES)}", "runtime")
    parameters = parameters_of(recipe, request.overrides, runtime, found)
    topology = topology_of(recipe, parameters, runtime, found)
    found.refuse()
    check_runtime(recipe, parameters, runtime, found)
    check_cache_size(recipe, parameters, found)
    if request.arguments:
        text = "sparkrun drops what stands after -- in silence"
        found.add("warning", "dropped-arguments", text, "write it into the command, or use --set")
    found.refuse()
    values, user = with_marks(parameters.values, request.given, _written(recipe))
    parameters = replace(parameters, values=values)
    hosts = check_nodes(recipe, request.nodes, topology, found)
    several = len(hosts) > 1 or (not hosts and topology.world > 1)
    serve = serve_command(recipe, parameters, Launch(runtime=runtime, topology=topology, several=several), found)
    found.refuse()
    built = not (recipe.command or "").strip()
    api = None if request.peer else request.api or api_port(serve, runtime)
    meeting = Meeting(api, request.step)
    ranks = Ranks(serve=serve, built=built, topology=topology, hosts=hosts, parameters=parameters, meeting=meeting)
    return RenderedRecipe(
        runtime=runtime,
        image=recipe.container or IMAGES.get(runtime),
        script=serve,
        serve=serve,
        parameters=parameters.values,
        user=user,
        hosts=hosts,
        ranks=rank_commands(ranks, runtime),
        meeting=meeting_ports(ranks, runtime),
        launch=(_launch(recipe, request),),
    )


def _written(recipe: ModelRecipe) -> dict[str, tuple[object, ...]]:
    """The values that a recipe has for each parameter: its default, and those of its variants."""
    sets: list[dict[str, object]] = [dict(recipe.defaults)]
    sets += [dict(one.overrides) for one in own_section(recipe).variants.values()]
    return {name: tuple(one[name] for one in sets if name in one) for name in {name for one in sets for name in one}}


def runtime_of(recipe: ModelRecipe, overrides: tuple[tuple[str, str], ...] = ()) -> str:
    """The runtime as written, or as the command and the executor's backend say."""
    runtime = recipe.text("runtime") or ""
    command = (recipe.command or "").strip()
    if not runtime:
        runtime = next((name for name, words in FIRST_WORDS.items() if words.match(command)), "")
    if runtime not in ("", "vllm"):
        return runtime
    given = dict(overrides).get("distributed_executor_backend")
    if given is not None:
        return "vllm-ray" if given.strip().lower() == "ray" else "vllm-distributed"
    ray = str(recipe.defaults.get("distributed_executor_backend", "")).lower() == "ray"
    return "vllm-ray" if ray or RAY.search(recipe.command or "") else "vllm-distributed"


def serve_command(recipe: ModelRecipe, parameters: Parameters, launch: Launch, found: Findings) -> str:
    """The engine's command without what only several nodes need."""
    template = (recipe.command or "").strip()
    if not template:
        built = SERVE_COMMANDS[launch.runtime](recipe, parameters)
        if "{model_revision}" in built:
            text, fix = "the recipe has {model_revision}, and no model_revision", "add `model_revision: COMMIT`"
            found.add("error", "missing-placeholder", text, fix, "defaults")
        return _completed(built, recipe, parameters, launch)
    text, left = substitute(template, parameters.get)
    for name, offset in left:
        shift = offset + len(recipe.command or "") - len((recipe.command or "").lstrip())
        line = recipe.text_line(("command",), shift)
        fix = f"add `{name}: …` to `defaults`, or write the value itself"
        missing = f"the command has {{{name}}}, which neither `defaults` nor --set gives"
        found.add_line("error", "missing-placeholder", missing, fix, line)
    return _finished(mended(text), recipe, parameters, launch)


def _completed(command: str, recipe: ModelRecipe, parameters: Parameters, launch: Launch) -> str:
    """A command made of the parameters, with what the table of flags does not hold."""
    if launch.runtime in VLLM_KIND:
        ray = " --distributed-executor-backend ray" if launch.several and launch.runtime != "vllm-distributed" else ""
        return _with_served_name(command, recipe, parameters) + ray
    return _with_file(command, parameters, launch.runtime) or _with_replicas(command, launch)


def _finished(command: str, recipe: ModelRecipe, parameters: Parameters, launch: Launch) -> str:
    """The filled command with the flags that sparkrun adds or replaces."""
    runtime = launch.runtime
    if runtime in VLLM_KIND:
        backend = parameters.get("distributed_executor_backend")
        if backend is not None:
            command = with_flag(command, "--distributed-executor-backend", backend, replace=True)
        if runtime != "vllm-distributed" and launch.several:
            command = with_flag(command, "--distributed-executor-backend", "ray")
        return _with_served_name(command, recipe, parameters)
    mode = split_mode(parameters) if runtime == "llama-cpp" else None
    if mode:
        command = appended(SPLIT.sub("", command).strip(), f"--split-mode {mode}")
    name = parameters.get("served_model_name")
    if runtime in NAME_FLAGS and name is not None:
        command = with_flag(command, NAME_FLAGS[runtime], name)
    return _with_file(command, parameters, runtime) or _with_replicas(command, launch)


def _with_file(command: str, parameters: Parameters, runtime: str) -> str | None:
    """TensorRT-LLM's command with the file of its other parameters; None when it needs none."""
    if runtime != "trtllm" or all(parameters.get(key) is None for key in TENSORRT_FILE):
        return None
    return command if TENSORRT_FLAG in command else f"{command.rstrip()} {TENSORRT_FLAG} {TENSORRT_PATH}"


def _with_served_name(command: str, recipe: ModelRecipe, parameters: Parameters) -> str:
    name = _served_name(recipe, parameters)
    return with_flag(command, "--served-model-name", name) if name else command


def _served_name(recipe: ModelRecipe, parameters: Parameters) -> object:
    value = parameters.get("served_model_name")
    if value is not None:
        return value
    literal = SERVED_NAME.search(recipe.command or "")
    name = literal[1].strip("\"'") if literal else ""
    return name if name and not {"{", "}"} & set(name) else parameters.model


def _with_replicas(command: str, launch: Launch) -> str:
    topology = launch.topology
    if launch.runtime != "sglang" or topology.replicas <= 1 or (topology.world > 1 and not topology.shared):
        return command
    return with_flag(command, "--dp-size", topology.replicas)


def _launch(recipe: ModelRecipe, request: RenderRequest) -> tuple[str, ...]:
    nodes = ["--hosts", ",".join(request.nodes)] if request.nodes else []
    options = [word for key, value in request.overrides for word in ("-o", f"{key}={value}")]
    return ("sparkrun", "run", recipe.file, *nodes, *options)
