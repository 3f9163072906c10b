"""The words of a serve command: its flags by engine, and how a line is mended and added to. Pure."""

import json
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

BROKEN: Final = re.compile(r"\\[ \t]+\n")
QUOTES: Final = "\"'`"
SERVE: Final[Mapping[str, re.Pattern[str]]] = {
    "vllm": re.compile(r"\bvllm(?:\.entrypoints\.cli\.main)?\s+serve\b|\bvllm\.entrypoints\.openai\.api_server\b"),
    "sglang": re.compile(r"\bsglang\s+serve\b|\bsglang\.launch_server\b"),
    "trtllm": re.compile(r"\btrtllm-serve\b"),
}
"""How a command starts the server of each engine."""


def mended(command: str) -> str:
    """The command with each ``\\``, blanks, newline made a line continuation again."""
    return BROKEN.sub("\\\\\n", command)


def has_flag(command: str, flag: str) -> bool:
    """Whether a flag is a word of the command, alone or as ``FLAG=VALUE``."""
    return re.search(rf"(?<!\S){re.escape(flag)}(?=[=\s]|$)", command) is not None


def appended(command: str, *words: str) -> str:
    """The command with words at its end, after an escape there that has nothing to escape is taken off."""
    if not command:
        return " ".join(words)
    command = command.rstrip()
    while command.endswith("\\") and _ends_escaped(command):
        command = command[:-1].rstrip()
    return " ".join([command, *words])


def with_flag(command: str, flag: str, value: object, *, replace: bool = False) -> str:
    """The command with a flag: kept as it is when it is there, or with its first value replaced."""
    if has_flag(command, flag):
        pattern = rf"(?<!\S){re.escape(flag)}(=|\s+(?:\\\n\s*)?)\S+"
        changed, count = re.subn(pattern, lambda found: f"{flag}{found[1]}{value}", command, count=1)
        if not replace or count:
            return changed if replace else command
    return appended(command, f"{flag} {value}")


def _ends_escaped(command: str) -> bool:
    """Whether the last character is an escape as a shell reads it: outside of quotes and comments."""
    quote, escaping, escaped, comment, dollar, start = "", False, False, False, False, True
    for char in command:
        if comment:
            comment, start = char != "\n", start or char == "\n"
        elif escaped:
            escaped = dollar = False
            start = start and char == "\n"
        elif quote:
            quote = "" if char == quote else quote
            escaped = bool(quote) and char == "\\" and escaping
        elif char in QUOTES:
            quote, escaping = char, char != "'" or dollar
            start = dollar = False
        elif char == "\\":
            escaped = True
        elif char == "#" and start:
            comment = True
        else:
            start = char.isspace() or char in ";|&()<>"
            dollar = char == "$"
    return escaped and not quote and not comment


@dataclass(frozen=True, kw_only=True, slots=True)
class FlagTable:
    """Parameters in the order of their flags; a parameter's flag is its name with hyphens, or stands in ``odd``.

    A switch has no value. One of ``negatable`` becomes ``--no-…`` when it is false.
    """

    names: tuple[str, ...]
    odd: Mapping[str, str]
    switches: frozenset[str]
    negatable: frozenset[str] = field(default=frozenset())

    def words(self, value_of: Callable[[str], object], skipped: frozenset[str]) -> list[str]:
        """The flags and values of all parameters that have a value, but for the skipped ones."""
        found: list[str] = []
        for name in self.names:
            value = value_of(name)
            flag = self.odd.get(name, "--" + name.replace("_", "-"))
            if name in skipped or value is None:
                continue
            if name not in self.switches:
                found += [flag, flag_value(value)]
            elif is_on(value):
                found.append(flag)
            elif name in self.negatable:
                found.append(f"--no-{flag[2:]}")
        return found


def is_on(value: object) -> bool:
    """Whether a switch is on; as sparkrun reads it: a text is on when it has a 1, a t or a y."""
    if isinstance(value, bool) or not value:
        return bool(value)
    return any(sign in str(value).lower() for sign in "1ty")


def flag_value(value: object) -> str:
    """A value as one word: lists, mappings and JSON texts in single quotes, anything else as it is."""
    if isinstance(value, dict | list | tuple):
        return shlex.quote(json.dumps(value, separators=(",", ":"), default=str))
    if isinstance(value, str) and value.strip()[:1] in ("{", "["):
        return shlex.quote(value.strip())
    return str(value)


def words_of(text: str) -> tuple[str, ...]:
    """The words of a text, as tables of names are written."""
    return tuple(text.split())


VLLM: Final = FlagTable(
    names=words_of("""
        port host tensor_parallel gpu_memory_utilization max_model_len max_num_batched_tokens max_num_seqs
        served_model_name dtype quantization enforce_eager enable_prefix_caching trust_remote_code
        distributed_executor_backend pipeline_parallel data_parallel kv_cache_dtype otlp_traces_endpoint api_key
        attention_backend load_format reasoning_parser tool_call_parser chat_template speculative_config
        tokenizer_mode mm_encoder_tp_mode block_size seed enable_auto_tool_choice enable_chunked_prefill
        async_scheduling generation_config hf_overrides compilation_config attention_config
        model_loader_extra_config default_chat_template_kwargs limit_mm_per_prompt mm_processor_cache_gb
        kv_cache_memory_bytes max_cudagraph_capture_size long_prefill_token_threshold mamba_cache_mode
        mamba_cache_dtype mamba_ssm_cache_dtype reasoning_parser_plugin media_io_kwargs video_pruning_rate
        allowed_local_media_path prefix_match_unit enable_mamba_shared_prefix_checkpoint
        safetensors_load_strategy moe_backend enable_prompt_tokens_details enable_force_include_usage
        enable_request_id_headers enable_flashinfer_autotune linear_backend gdn_prefill_backend
        gdn_decode_kernel kda_prefill_backend mamba_backend recurrent_checkpoint_policy
        prefix_cache_retention_interval engram_config dcp_comm_backend prefill_policy prefill_compute_share
        prefill_compute_half_life prefill_schedule_interval max_parallel_prefills decode_refill_target
        scheduler_reserve_full_isl jit_monitor_mode disable_custom_all_reduce
        """),
    odd={"tensor_parallel": "-tp", "pipeline_parallel": "-pp", "data_parallel": "--data-parallel-size"},
    switches=frozenset(
        words_of("""
        async_scheduling disable_custom_all_reduce enable_auto_tool_choice enable_chunked_prefill
        enable_flashinfer_autotune enable_force_include_usage enable_mamba_shared_prefix_checkpoint
        enable_prefix_caching enable_prompt_tokens_details enable_request_id_headers enforce_eager
        scheduler_reserve_full_isl trust_remote_code
        """)
    ),
    negatable=frozenset(
        words_of("""
        async_scheduling enable_chunked_prefill enable_flashinfer_autotune enable_prefix_caching
        scheduler_reserve_full_isl
        """)
    ),
)
SGLANG: Final = FlagTable(
    names=words_of("""
        port host tensor_parallel pipeline_parallel expert_parallel data_parallel enable_dp_attention
        gpu_memory_utilization max_model_len max_num_seqs served_model_name dtype quantization trust_remote_code
        chunked_prefill kv_cache_dtype tokenizer_path api_key attention_backend load_format revision model_type
        max_total_tokens random_seed reasoning_parser tool_call_parser mm_feature_transport
        speculative_algorithm speculative_draft_model_path speculative_draft_model_revision
        speculative_num_steps speculative_eagle_topk speculative_num_draft_tokens speculative_dspark_block_size
        cuda_graph_bs cuda_graph_max_bs cuda_graph_max_bs_decode torch_compile_max_bs
        num_continuous_decode_steps fp8_gemm_backend fp4_gemm_backend moe_runner_backend mamba_ssm_dtype
        mamba_full_memory_ratio enable_torch_compile disable_radix_cache disable_prefill_cuda_graph
        enable_decoder_swa_bounded_replay
        """),
    odd={
        "tensor_parallel": "--tp-size",
        "pipeline_parallel": "--pp-size",
        "expert_parallel": "--ep-size",
        "data_parallel": "--dp-size",
        "gpu_memory_utilization": "--mem-fraction-static",
        "max_model_len": "--context-length",
        "max_num_seqs": "--max-running-requests",
        "chunked_prefill": "--chunked-prefill-size",
    },
    switches=frozenset(
        words_of("""
        disable_prefill_cuda_graph disable_radix_cache enable_decoder_swa_bounded_replay enable_dp_attention
        enable_torch_compile trust_remote_code
        """)
    ),
)
