"""Profiles of Ansible for SGLang: ``_model_profile: {MODEL: {tp_size: …, mem_fraction_static: …}}``. Pure."""

from collections.abc import Mapping
from typing import Final

from gb10.models.importing.import_result import (
    DEFAULTS,
    ImportChoices,
    ImportResult,
    command_of,
    import_error,
    pullable,
)
from gb10.models.launches.container_launch import mapping

ROOTS: Final = ("_model_profile", "sglang_model_profiles")
NAMES: Final = {
    "tp_size": "--tp-size",
    "ep_size": "--ep-size",
    "speculative_algo": "--speculative-algorithm",
    "fp8_gemm_runner_backend": "--fp8-gemm-backend",
    **{
        name: f"--{name.replace('_', '-')}"
        for name in (
            *("context_length", "quantization", "moe_runner_backend", "kv_cache_dtype", "mem_fraction_static"),
            *("attention_backend", "fp4_gemm_backend", "cuda_graph_max_bs", "pp_async_batch_depth"),
            *("reasoning_parser", "tool_call_parser", "speculative_num_steps", "speculative_num_draft_tokens"),
            *("speculative_eagle_topk", "speculative_draft_model_path", "speculative_draft_model_quantization"),
            *("speculative_moe_runner_backend", "mamba_scheduler_strategy", "max_mamba_cache_size", "load_format"),
            *("mm_attention_backend", "max_running_requests", "max_total_tokens", "chunked_prefill_size", "dtype"),
            *("json_model_override_args", "page_size", "swa_full_tokens_ratio", "chat_template", "dist_timeout"),
        )
    },
}
"""Keys whose value is an option's."""
SWITCHES: Final = (
    *("trust_remote_code", "disable_piecewise_cuda_graph", "disable_cuda_graph", "enable_eplb"),
    *("enable_expert_distribution_metrics", "weight_loader_disable_mmap", "is_embedding"),
)
ABOUT: Final = ("knowledge_cutoff", "release_date", "info_url", "num_experts", "recommended_sampling")
"""Keys about the model, which no server reads: they go into ``metadata``."""
SPECULATIVE: Final = "speculative_"
VARIABLES: Final = {"enable_spec_v2": "SGLANG_ENABLE_SPEC_V2", "disable_deep_gemm": "SGLANG_ENABLE_JIT_DEEPGEMM"}
"""Switches that the server reads from the environment; of the second the opposite."""


def import_profile(values: Mapping[str, object], file: str, wanted: ImportChoices) -> ImportResult:
    """The recipe of a profile; raises UsageError when it holds several and none is named."""
    found = {name: mapping(one) for root in ROOTS for name, one in mapping(values.get(root)).items()}
    name = wanted.variant or (next(iter(found)) if len(found) == 1 else "")
    if name not in found:
        raise import_error(file, f"it has {len(found)} models", f"name one: --variant MODEL; {', '.join(found)[:300]}")
    profile = dict(found[name])
    nodes = profile.get("tp_size")
    if not isinstance(nodes, int) or nodes < 1:
        nodes = 1
    if wanted.nodes and wanted.nodes != nodes:
        raise import_error(file, f"its sizes are for {nodes} node{'s' * (nodes > 1)}", "leave out --nodes")
    if not profile.get("speculative_enabled"):
        profile = {key: value for key, value in profile.items() if not key.startswith(SPECULATIVE)}
    env = _env(profile)
    left = [key for key in profile if not _known(key)]
    image = pullable(str(profile["sglang_image"])) if profile.get("sglang_image") else wanted.image
    section = {
        "engine": "sglang",
        **({"releases": f"=={wanted.release}"} if wanted.release and image == wanted.image else {}),
        "sources": [f"arguments: a profile of Ansible, {file.rpartition('/')[2]}"],
    }
    return ImportResult(
        values={
            "recipe_version": "2",
            "model": name,
            "description": f"{name.rpartition('/')[2]} with SGLang on {nodes} node{'s' * (nodes > 1)}",
            "runtime": "sglang",
            "container": image,
            "min_nodes": nodes,
            "max_nodes": nodes,
            "defaults": {**DEFAULTS, "port": 30000, "tensor_parallel": nodes},
            **({"env": env} if env else {}),
            "command": command_of(
                "python3 -m sglang.launch_server --model-path {model} --host {host} --port {port}", _options(profile)
            ),
            "metadata": {key: _plain(profile[key]) for key in ABOUT if key in profile},
            "gb10": section,
        },
        said=(f"left out, no option of the server: {', '.join(left)}",) if left else (),
    )


def _known(key: str) -> bool:
    return key in (*NAMES, *SWITCHES, *ABOUT, *VARIABLES, "speculative_enabled", "sglang_image")


def _options(profile: Mapping[str, object]) -> list[str]:
    words: list[str] = []
    for key, value in profile.items():
        if key == "tp_size":
            words += ["--tp-size", "{tensor_parallel}"]
        elif key in NAMES and value not in (None, ""):
            words += [NAMES[key], str(value)]
        elif key in SWITCHES and value is True:
            words.append(f"--{key.replace('_', '-')}")
    return words


def _env(profile: Mapping[str, object]) -> dict[str, str]:
    env = {}
    if profile.get("enable_spec_v2") is True:
        env[VARIABLES["enable_spec_v2"]] = "1"
    if profile.get("disable_deep_gemm") is True:
        env[VARIABLES["disable_deep_gemm"]] = "0"
    return env


def _plain(value: object) -> object:
    return mapping(value) if isinstance(value, Mapping) else str(value)
