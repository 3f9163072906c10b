"""Bytes of the cache by vLLM's own specs: JSON rows on stdin, the bytes of one request of each on stdout.

A row has ``kind`` (``full``, ``latent``), heads and sizes of a head, ``cache`` (--kv-cache-dtype), ``length``,
``block`` and ``ranks`` of decode context parallelism.
"""

import json
import sys
from types import SimpleNamespace

from vllm.utils.torch_utils import STR_DTYPE_TO_TORCH_DTYPE, nvfp4_kv_cache_full_dim
from vllm.v1.attention.backends.triton_attn import TritonAttentionBackend
from vllm.v1.kv_cache_interface import FullAttentionSpec, MLAAttentionSpec, get_kv_quant_mode


def spec_of(row: dict) -> FullAttentionSpec:
    kind = {"auto": "bfloat16"}.get(row["cache"], row["cache"])
    common = {"block_size": row["block"], "num_kv_heads": row["heads"], "head_size": row["key"]}
    common |= {"dtype": STR_DTYPE_TO_TORCH_DTYPE[kind], "kv_quant_mode": get_kv_quant_mode(kind)}
    if row["kind"] == "latent":
        return MLAAttentionSpec(cache_dtype_str=kind, **common)
    spec = FullAttentionSpec(head_size_v=row["value"], **common)
    if kind.startswith("nvfp4"):  # as v1/attention/backends/flashinfer.py packs them
        sides = nvfp4_kv_cache_full_dim(row["key"]) + nvfp4_kv_cache_full_dim(row["value"])
        return FullAttentionSpec(head_size_v=row["value"], state_content_bytes=sides, **common)
    return TritonAttentionBackend.customize_spec(spec)


def config_of(row: dict) -> SimpleNamespace:
    parallel = SimpleNamespace(decode_context_parallel_size=row["ranks"])
    return SimpleNamespace(model_config=SimpleNamespace(max_model_len=row["length"]), parallel_config=parallel)


print(json.dumps([spec_of(row).max_memory_usage_bytes(config_of(row)) for row in json.load(sys.stdin)]))
