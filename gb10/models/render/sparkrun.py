"""Renders as sparkrun 0.4.2 does: the serve command, and the same with a rendezvous for each node.

Facts of its behaviour are from reading and running it. Pure.
"""

import re
import shlex
from typing import Final

from gb10.models.load.model_recipe import ModelRecipe
from gb10.models.render.engine_flags import SGLANG, VLLM, FlagTable
from gb10.models.render.findings import Findings
from gb10.models.render.nodes import check_nodes, rank_commands
from gb10.models.render.parameters import Parameters, parameters_of
from gb10.models.render.placeholders import substitute
from gb10.models.render.rendered import RenderedRecipe, RenderRequest
from gb10.models.render.serve_line import mended, with_flag
from gb10.models.render.topology import Topology, topology_of

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
IMAGES: Final = dict.fromkeys(("vllm-distributed", "vllm-ray"), "ghcr.io/spark-arena/dgx-vllm-eugr-nightly-tf5:latest")
"""The image of a recipe that names none."""
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


def render_sparkrun(recipe: ModelRecipe, request: RenderRequest, found: Findings) -> RenderedRecipe:
    """What sparkrun makes of a recipe; raises StoppedError when it would end with an error."""
    found.refuse()
    _check_shape(recipe, found)
    found.refuse()
    runtime = runtime_of(recipe, request.overrides)
    if runtime not in RUNTIMES:
        found.stop("unknown-runtime", f"no runtime '{runtime}'", f"write one of {', '.join(RUNTIMES)}", "runtime")
    parameters = parameters_of(recipe, request.overrides, runtime, found)
    topology = topology_of(recipe, parameters, runtime, found)
    if request.arguments:
        text = "sparkrun drops what stands after -- in silence"
        found.add("warning", "dropped-arguments", text, "write it into the command, or use --set")
    found.refuse()
    serve = serve_command(recipe, parameters, runtime, topology, found)
    hosts = check_nodes(recipe, request.nodes, topology, found)
    found.refuse()
    return RenderedRecipe(
        runtime=runtime,
        image=recipe.container or IMAGES.get(runtime),
        script=serve,
        serve=serve,
        parameters=parameters.values,
        ranks=rank_commands(serve, runtime, topology, hosts, parameters),
        launch=(_launch(recipe, request),),
    )


def _check_shape(recipe: ModelRecipe, found: Findings) -> None:
    if not recipe.model:
        found.stop("missing-key", "the key 'model' is missing", "add `model: ORGANISATION/NAME`", "model")
    command = recipe.values.get("command")
    if command is not None and not isinstance(command, str):
        found.stop("wrong-type", "'command' must be text", "write `command: |` and the command below", "command")
    for key in ("defaults", "env"):
        if recipe.values.get(key) and not isinstance(recipe.values[key], dict):
            found.stop("wrong-type", f"'{key}' must be a mapping (key: value)", f"write `{key}:` and keys below", key)


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


def serve_command(
    recipe: ModelRecipe, parameters: Parameters, runtime: str, topology: Topology, found: Findings
) -> str:
    """The engine's command without what only several nodes need."""
    template = (recipe.command or "").strip()
    if not template:
        return _built(recipe, parameters, runtime, topology, found)
    text, left = substitute(template, parameters.get)
    for name, offset in left:
        shift = offset + len(recipe.command or "") - len((recipe.command or "").lstrip())
        line = recipe.text_line(("command",), shift)
        fix = f"add `{name}: …` to `defaults`, or write the value itself"
        missing = f"the command has {{{name}}}, which neither `defaults` nor --set gives"
        found.add_line("error", "missing-placeholder", missing, fix, line)
    return _finished(mended(text), recipe, parameters, runtime, topology)


def _finished(command: str, recipe: ModelRecipe, parameters: Parameters, runtime: str, topology: Topology) -> str:
    """The filled command with the flags that sparkrun adds or replaces."""
    if runtime in VLLM_KIND:
        backend = parameters.get("distributed_executor_backend")
        if backend is not None:
            command = with_flag(command, "--distributed-executor-backend", backend, replace=True)
        if runtime != "vllm-distributed" and topology.world > 1:
            command = with_flag(command, "--distributed-executor-backend", "ray")
        return _named(command, recipe, parameters)
    name = parameters.get("served_model_name")
    if runtime in NAME_FLAGS and name is not None:
        command = with_flag(command, NAME_FLAGS[runtime], name)
    if runtime == "trtllm" and any(parameters.get(key) is not None for key in TENSORRT_FILE):
        return command if TENSORRT_FLAG in command else f"{command.rstrip()} {TENSORRT_FLAG} {TENSORRT_PATH}"
    return _with_replicas(command, runtime, topology)


def _named(command: str, recipe: ModelRecipe, parameters: Parameters) -> str:
    name = _served_name(recipe, parameters)
    return with_flag(command, "--served-model-name", name) if name else command


def _served_name(recipe: ModelRecipe, parameters: Parameters) -> object:
    value = parameters.get("served_model_name")
    if value is not None:
        return value
    literal = SERVED_NAME.search(recipe.command or "")
    name = literal[1].strip("\"'") if literal else ""
    return name if name and not {"{", "}"} & set(name) else parameters.model


def _with_replicas(command: str, runtime: str, topology: Topology) -> str:
    if runtime != "sglang" or topology.replicas <= 1 or (topology.world > 1 and not topology.shared):
        return command
    return with_flag(command, "--dp-size", topology.replicas)


def _built(recipe: ModelRecipe, parameters: Parameters, runtime: str, topology: Topology, found: Findings) -> str:
    if runtime in VLLM_KIND:
        words = ["vllm", "serve", parameters.model, *_revision(recipe, parameters)]
        command = _with_flags(words, "-tp", VLLM, parameters, {"tensor_parallel", "distributed_executor_backend"})
        command = _named(command, recipe, parameters)
        ray = runtime != "vllm-distributed" and topology.world > 1
        return f"{command} --distributed-executor-backend ray" if ray else command
    if runtime == "sglang":
        words = ["sglang", "serve", "--model-path", shlex.quote(parameters.model)]
        command = _with_flags(words, "--tp-size", SGLANG, parameters, {"tensor_parallel", "data_parallel"})
        return _with_replicas(command, runtime, topology)
    found.stop("no-command", f"the recipe has no command, and none is made for '{runtime}'", "write `command: |`")
    return ""


def _with_flags(words: list[str], tensor: str, table: FlagTable, parameters: Parameters, skipped: set[str]) -> str:
    size = parameters.get("tensor_parallel")
    sized = [tensor, str(size)] if size else []
    return " ".join([*words, *sized, *table.words(parameters.get, frozenset(skipped))])


def _revision(recipe: ModelRecipe, parameters: Parameters) -> list[str]:
    revision = recipe.values.get("model_revision")
    local = parameters.model.startswith("/") or ":" in parameters.model
    return ["--revision", shlex.quote(str(revision))] if revision and not local else []


def _launch(recipe: ModelRecipe, request: RenderRequest) -> tuple[str, ...]:
    nodes = ["--hosts", ",".join(request.nodes)] if request.nodes else []
    options = [word for key, value in request.overrides for word in ("-o", f"{key}={value}")]
    return ("sparkrun", "run", recipe.file, *nodes, *options)
