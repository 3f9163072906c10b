"""The serve command of a recipe that has none: sparkrun 0.4.2 makes it of the parameters. Pure."""

import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from gb10.models.load.model_recipe import ModelRecipe
from gb10.models.render.parameters import Parameters
from gb10.models.render.placeholders import substitute
from gb10.models.render.serve_line import SGLANG, VLLM, FlagTable, is_on, words_of

LLAMA: Final = FlagTable(
    names=words_of("""
        port host ctx_size n_gpu_layers parallel threads chat_template reasoning_format split_mode
        served_model_name api_key top_p top_k temperature min_p presence_penalty cont_batching no_webui jinja
        """),
    odd={"served_model_name": "--alias", "temperature": "--temp"},
    switches=frozenset({"cont_batching", "jinja", "no_webui"}),
)
TENSORRT: Final = FlagTable(
    names=words_of("""
        port host tensor_parallel pipeline_parallel expert_parallel max_num_tokens max_batch_size max_model_len
        backend tokenizer kv_cache_free_gpu_memory_fraction trust_remote_code
        """),
    odd={
        "tensor_parallel": "--tp_size",
        "pipeline_parallel": "--pp_size",
        "expert_parallel": "--ep_size",
        "max_model_len": "--max_seq_len",
        **{
            name: f"--{name}"
            for name in (
                *("max_num_tokens", "max_batch_size"),
                *("kv_cache_free_gpu_memory_fraction", "trust_remote_code"),
            )
        },
    },
    switches=frozenset({"trust_remote_code"}),
)
MAX: Final = FlagTable(
    names=words_of("host max_model_len max_num_seqs served_model_name quantization"),
    odd={
        "max_model_len": "--max-length",
        "max_num_seqs": "--max-batch-size",
        "quantization": "--quantization-encoding",
    },
    switches=frozenset(),
)
TOKENARY: Final = FlagTable(
    names=words_of("""
        host max_model_len max_num_seqs max_tokens dtype kv_cache_dtype gpu_memory_utilization prefill_chunk_size
        disable_prefix_cache disable_reasoning disable_cuda_graph encode_only ner
        """),
    odd={"kv_cache_dtype": "--kvcache-dtype"},
    switches=frozenset(
        words_of("disable_cuda_graph disable_prefix_cache disable_reasoning encode_only ner"),
    ),
)
ATLAS: Final = FlagTable(
    names=words_of("""
        port host tensor_parallel gpu_memory_utilization max_model_len max_num_seqs max_num_batched_tokens
        served_model_name kv_cache_dtype ep_size max_batch_size block_size kv_high_precision_layers
        tool_call_parser tool_max_tokens max_inter_tool_prose fp8_kv_calibration_tokens fp8_kv_headroom
        scheduling_policy tbt_deadline_ms max_prefill_tokens prefill_varlen_batch oom_guard_mb
        request_timeout swap_space_gb warmup_prompt auto_compact kernel_target lm_head_dtype ssm_cache_slots
        ssm_checkpoint_interval ssm_h_dtype ssm_rollback_mode ssm_batched_recurrent ssm_tail_midchunk
        gdn_fused_norm mtp_quantization mtp_vocab mtp_gate num_drafts draft_model exact_verify dflash_gamma
        dflash_window_size max_thinking_budget default_top_n_sigma default_min_p content_loop_watchdog
        content_loop_min_repeats default_chat_template_kwargs model_from_path cache_dir gpu_ordinal dump
        vision_max_pixels vision_remote_image_max_mb vision_remote_image_timeout_s video_ffmpeg_path
        video_fps video_max_frames video_decode_timeout_s lora_adapter max_lora_rank max_loras
        lora_stageable lora_stageable_disk src_lang tgt_lang high_speed_swap_dir high_speed_swap_gb
        high_speed_swap_resident_blocks high_speed_swap_rank high_speed_swap_qd
        high_speed_swap_cache_blocks_per_seq high_speed_swap_graph disable_tool_grammar
        enable_prefix_caching speculative self_speculative ngram_speculative dflash disable_thinking
        high_speed_swap require_auth adaptive_sampling auto_swap no_auto_swap auth_tokens_file
        disable_template_overrides vision_allow_remote_images vision_remote_image_allow_private
        video_allow_ffmpeg no_fast_load fast_load_prefetch_shards no_tui profile check_kernels
        dangerously_allow_unresolved_kernel_lookups api_key
        """),
    odd={
        "tensor_parallel": "--tp-size",
        "max_model_len": "--max-seq-len",
        "max_num_batched_tokens": "--max-prefill-tokens",
        "served_model_name": "--model-name",
        "api_key": "--auth-token",
    },
    switches=frozenset(
        words_of("""
        adaptive_sampling auto_swap check_kernels dangerously_allow_unresolved_kernel_lookups dflash
        disable_template_overrides disable_thinking enable_prefix_caching fast_load_prefetch_shards
        high_speed_swap ngram_speculative no_auto_swap no_fast_load no_tui profile require_auth
        self_speculative speculative video_allow_ffmpeg vision_allow_remote_images
        vision_remote_image_allow_private
        """)
    ),
)
ATLAS_TRUTHS: Final = frozenset(
    words_of("""
        content_loop_watchdog disable_tool_grammar exact_verify gdn_fused_norm high_speed_swap_graph
        prefill_varlen_batch ssm_batched_recurrent ssm_tail_midchunk
        """)
)
"""Atlas's parameters whose value is written as ``true`` or ``false``."""


Build = Callable[[ModelRecipe, Parameters], str]
OWN_FLAGS: Final = frozenset({"tensor_parallel", "distributed_executor_backend"})
"""Parameters of vLLM that are written before or after the table's flags."""


def _vllm(recipe: ModelRecipe, parameters: Parameters) -> str:
    words = ["vllm", "serve", parameters.model]
    revision = recipe.values.get("model_revision")
    if revision and not parameters.model.startswith("/") and ":" not in parameters.model:  # no local model
        words += ["--revision", shlex.quote(str(revision))]
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


SERVE_COMMANDS: Final[Mapping[str, Build]] = {
    **dict.fromkeys(("vllm-distributed", "vllm-ray", "eugr-vllm"), _vllm),
    "sglang": _sglang,
    "llama-cpp": _llama,
    "trtllm": _tensorrt,
    "atlas": _atlas,
    "modular-max": _max,
    "tokenary": _tokenary,
}
"""By runtime; the flags that only a launch of several nodes needs are not in the command."""
