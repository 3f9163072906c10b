"""vLLM's official recipes (vllm-project/recipes, one YAML file a model) for DGX Spark. Pure.

How a command is put together is that project's own rule: base arguments, the variant, its exact hardware, the strategy,
overrides by strategy and by hardware, then features; of an option that comes twice the last one counts.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from packaging.version import InvalidVersion, Version

from gb10.models.importing.import_result import (
    DEFAULTS,
    ImportChoices,
    ImportResult,
    command_of,
    import_error,
    number,
    pullable,
    texts,
)
from gb10.models.launches.container_launch import mapping

HARDWARE: Final = ("dgx_spark_gb10", "blackwell", "nvidia", "default")
"""What a value by hardware is looked up by, the first that is there."""
GENERATION: Final = ("blackwell", "nvidia")
EXACT: Final = "dgx_spark_gb10"
SHARE: Final = 0.8
"""The share of the memory that a server takes, where the file names none: the engine's own default is too large."""
GB: Final = 128
"""Memory of a node; the files say ``vram_minimum_gb`` against it."""
COUNTS: Final = (1, 2, 4, 8)
SINGLE: Final = "single_node_tp"
STRATEGIES: Final = {
    SINGLE: ("tensor_parallel", False),
    "multi_node_tp": ("tensor_parallel", False),
    "multi_node_tep": ("tensor_parallel", True),
    "multi_node_tp_pp": ("pipeline_parallel", False),
    "multi_node_tp_dp": ("data_parallel", False),
    "multi_node_dep": ("data_parallel", True),
}
"""By name: what is as large as the number of nodes, and whether experts are parallel. A node has one GPU."""
FLAGS: Final = {
    "tensor_parallel": "--tensor-parallel-size",
    "pipeline_parallel": "--pipeline-parallel-size",
    "data_parallel": "--data-parallel-size",
}
MANAGED: Final = (
    *("--nnodes", "--node-rank", "--master-addr", "--master-port", "--headless", "--data-parallel-address"),
    *("--data-parallel-size-local", "--data-parallel-start-rank", "--data-parallel-hybrid-lb"),
    *("--data-parallel-rpc-port", "--distributed-executor-backend", "--host", "--port"),
)
"""Options that a launcher sets for each node."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """A variant with its name, a number of nodes, and a strategy."""

    variant: str
    about: Mapping[str, object]
    nodes: int
    strategy: str


def import_official(values: Mapping[str, object], file: str, wanted: ImportChoices) -> ImportResult:
    """The recipe for so many Sparks; raises UsageError with the reason when there is none."""
    model = mapping(values["model"])
    choice = _choose(values, file, wanted)
    features = _features(values, choice, file, wanted)
    options = _options(values, choice, features)
    env = _env(values, choice)
    name, image, said = str(choice.about.get("model_id") or model["model_id"]), *_image(values, choice, wanted)
    size, _ = STRATEGIES[choice.strategy]
    share = not {"--gpu-memory-utilization", "--kv-cache-memory-bytes"} & set(options)
    options = ["--gpu-memory-utilization", "{gpu_memory_utilization}"] * share + options
    start = f"vllm serve {{model}} --host {{host}} --port {{port}} {FLAGS[size]} {{{size}}}"
    ours = {
        "engine": "vllm",
        "releases": _releases(values, choice, file, wanted),
        "sources": [f"arguments: vllm-project/recipes, {model['model_id']}, {choice.variant}, {choice.strategy}"],
    }
    dropped = sorted({key for key, value in env.items() if value.startswith("$")})
    added = ["added: --gpu-memory-utilization 0.8, for CPU and GPU share the memory"] if share else []
    said = [*said, *added, *([f"left out, each launcher sets them: {', '.join(dropped)}"] if dropped else [])]
    return ImportResult(
        values={
            "recipe_version": "2",
            "model": name,
            "description": " ".join(str(mapping(values["meta"]).get("title") or name).split()),
            "runtime": "vllm",
            "container": image,
            **({"min_nodes": choice.nodes, "max_nodes": choice.nodes}),
            "defaults": {**DEFAULTS, size: choice.nodes, **({"gpu_memory_utilization": SHARE} if share else {})},
            **({"env": kept} if (kept := {key: value for key, value in env.items() if key not in dropped}) else {}),
            "command": command_of(start, options),
            "gb10": ours,
        },
        said=(f"variant {choice.variant} with strategy {choice.strategy}, nodes: {choice.nodes}", *said),
    )


def _choose(values: Mapping[str, object], file: str, wanted: ImportChoices) -> Choice:
    variants = {name: mapping(one) for name, one in mapping(values.get("variants")).items()} or {"default": {}}
    if wanted.variant is not None and wanted.variant not in variants:
        raise import_error(file, f"it has no variant '{wanted.variant[:80]}'", f"variants: {', '.join(variants)}")
    named = [wanted.variant] if wanted.variant else list(variants)
    for nodes in (wanted.nodes,) if wanted.nodes else COUNTS:
        fitting = [name for name in named if wanted.variant or _fits(variants[name], nodes)]
        fitting.sort(key=lambda name: -number(variants[name].get("vram_minimum_gb")))
        strategy = _strategy(values, nodes)
        if fitting and strategy:
            return Choice(variant=fitting[0], about=variants[fitting[0]], nodes=nodes, strategy=strategy)
    sizes = ", ".join(f"{name} {number(one.get('vram_minimum_gb')):.0f} GB" for name, one in variants.items())
    reason = f"no variant and strategy of it fits {wanted.nodes or 'up to 8'} node{'s' * (wanted.nodes != 1)}"
    raise import_error(file, reason, f"--nodes N or --variant NAME; a node has {GB} GB: {sizes}")


def _fits(variant: Mapping[str, object], nodes: int) -> bool:
    allowed = texts(variant.get("supported_hardware"))
    return number(variant.get("vram_minimum_gb")) <= GB * nodes and (not allowed or EXACT in allowed)


def _strategy(values: Mapping[str, object], nodes: int) -> str | None:
    """The strategy that the project takes by itself for so many nodes; None when it offers none."""
    gates = {name: _by_hardware(one) for name, one in mapping(values.get("strategy_hardware")).items()}
    offered = [name for name in texts(values.get("compatible_strategies")) if gates.get(name) != "unsupported"]
    offered += [name for name, gate in gates.items() if gate == "supported" and name not in offered]
    if nodes == 1:
        return SINGLE if SINGLE in offered or any(name.startswith("single_node_") for name in offered) else None
    own = str(values.get("default_strategy") or "").replace("single_node_", "multi_node_")
    order = (own, "multi_node_tp", "multi_node_dep", "multi_node_tep", "multi_node_tp_pp", "multi_node_tp_dp")
    return next((name for name in order if name in offered and name in STRATEGIES), None)


def _by_hardware(value: object, keys: Iterable[str] = HARDWARE) -> object:
    found = mapping(value)
    return next((found[key] for key in keys if key in found), None)


def _features(values: Mapping[str, object], choice: Choice, file: str, wanted: ImportChoices) -> list[str]:
    known = mapping(values.get("features"))
    unknown = [name for name in wanted.features if name not in known]
    if unknown:
        raise import_error(file, f"it has no feature '{unknown[0][:80]}'", f"features: {', '.join(known) or 'none'}")
    optional = {*texts(values.get("opt_in_features"))}
    optional |= {*texts(mapping(values.get("hardware_opt_in_features")).get(EXACT))}
    chosen = [name for name in known if name not in optional or name in wanted.features]
    strategies = {name: texts(mapping(known[name]).get("strategies")) for name in chosen}
    return [name for name in chosen if not strategies[name] or choice.strategy in strategies[name]]


def _options(values: Mapping[str, object], choice: Choice, features: list[str]) -> list[str]:
    """All options but those that a launcher sets; of one that comes twice the last."""
    layers = [mapping(values["model"]).get("base_args"), choice.about.get("extra_args")]
    exact = mapping(mapping(choice.about.get("hardware_overrides")).get(EXACT))
    _, experts = STRATEGIES[choice.strategy]
    layers += [exact.get("extra_args"), ["--enable-expert-parallel"] if experts else []]
    override = mapping(mapping(values.get("strategy_overrides")).get(choice.strategy))
    layers += [override.get("extra_args"), override.get("vllm_args")]
    layers += [layer.get("extra_args") for layer in _hardware(values, choice, override)]
    layers += [_feature(mapping(mapping(values["features"])[name]), name, choice) for name in features]
    words = [word for layer in layers for word in texts(layer) if word]
    return _last_of_each(words, (*MANAGED, *FLAGS.values()))


def _hardware(
    values: Mapping[str, object], choice: Choice, override: Mapping[str, object]
) -> list[Mapping[str, object]]:
    """The layers by hardware: the strategy's replaces those of the recipe and the variant."""
    own = mapping(override.get("hardware_overrides"))
    strategy = _by_hardware(own, GENERATION)
    layers = [strategy] if strategy else []
    if not strategy:
        layers = [_by_hardware(one.get("hardware_overrides"), GENERATION) for one in (values, choice.about)]
    return [mapping(layer) for layer in (*layers, own.get(EXACT))]


def _feature(feature: Mapping[str, object], name: str, choice: Choice) -> object:
    modes = {key: mapping(one) for key, one in mapping(feature.get("modes")).items()}
    if not modes:
        own = mapping(_by_hardware(feature.get("hardware_overrides"), GENERATION))
        return own.get("args", feature.get("args"))
    allowed = [key for key, mode in modes.items() if _mode_allowed(mode, choice)]
    wanted = (mapping(choice.about.get("default_modes")).get(name), feature.get("default_mode"), *allowed)
    chosen = next((key for key in wanted if key in allowed), None)
    mode = modes[str(chosen)] if chosen else {}
    return mapping(_by_hardware(mode.get("hardware_overrides"))).get("args", mode.get("args"))


def _mode_allowed(mode: Mapping[str, object], choice: Choice) -> bool:
    variants, hardware = texts(mode.get("variants")), mapping(mode.get("hardware"))
    barred = "unsupported" in (hardware.get("blackwell"), hardware.get(EXACT))
    return not barred and (not variants or choice.variant in variants)


def _last_of_each(words: list[str], left_out: Iterable[str]) -> list[str]:
    units: list[list[str]] = []
    for word in words:
        if not word.startswith("-") and units and len(units[-1]) == 1 and units[-1][0].startswith("-"):
            units[-1].append(word)
        else:
            units.append([word])
    last = {unit[0]: index for index, unit in enumerate(units)}
    kept = (unit for index, unit in enumerate(units) if last[unit[0]] == index and unit[0] not in left_out)
    return [word for unit in kept for word in unit]


def _env(values: Mapping[str, object], choice: Choice) -> dict[str, str]:
    override = mapping(mapping(values.get("strategy_overrides")).get(choice.strategy))
    exact = mapping(mapping(choice.about.get("hardware_overrides")).get(EXACT))
    layers = [mapping(values["model"]).get("base_env"), choice.about.get("extra_env"), exact.get("extra_env")]
    layers += [override.get("env"), override.get("extra_env")]
    layers += [layer.get("extra_env") for layer in _hardware(values, choice, override)]
    return {key: str(value) for layer in layers for key, value in mapping(layer).items()}


def _image(values: Mapping[str, object], choice: Choice, wanted: ImportChoices) -> tuple[str, list[str]]:
    """The image that the project names for DGX Spark, else ours; and what to say of it."""
    exact = mapping(mapping(choice.about.get("hardware_overrides")).get(EXACT)).get("docker_image")
    given = exact or choice.about.get("docker_image") or mapping(values["model"]).get("docker_image")
    if isinstance(given, Mapping):
        given = given.get("nvidia", given)
        given = mapping(given).get("cu130") if isinstance(given, Mapping) else given
    if isinstance(given, str) and given:
        return pullable(given), [f"the image is the project's: {pullable(given)}"]
    return wanted.image, []


def _releases(values: Mapping[str, object], choice: Choice, file: str, wanted: ImportChoices) -> str:
    """The releases that the project names, else the one that is wanted; raises UsageError for one that is too old."""
    least = choice.about.get("min_vllm_version") or mapping(values["model"]).get("min_vllm_version")
    if not least:
        return f"=={wanted.release}" if wanted.release else ">=0.1"
    try:
        old = wanted.release is not None and Version(wanted.release) < Version(str(least))
    except InvalidVersion:
        raise import_error(
            file, f"its min_vllm_version '{str(least)[:40]}' is no release", "correct it there"
        ) from None
    if old:
        raise import_error(file, f"it needs vLLM {least}", f"--release {least} or newer")
    return f">={least}"
