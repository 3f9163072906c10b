"""What PyTorch takes for pinned host memory: each tensor is rounded up to a power of two. Pure.

aten/src/ATen/core/CachingHostAllocator.h; vllm-project/vllm#53042, #48436 and #56410.
"""

import re
from functools import lru_cache
from typing import Final

from gb10.models.memory.model import Model
from gb10.models.memory.shapes.decoder import FAMILIES, model_tensors
from gb10.models.memory.weights.weight import Ranks, Weight, of_rank, weight_of

MERGED: Final = ((re.compile(r"\b[qkv]_proj\b"), "qkv_proj"), (re.compile(r"\b(?:gate|up)_proj\b"), "gate_up_proj"))
"""Projections that vLLM keeps in one tensor."""


def pinned_size(size: int) -> int:
    """Bytes that a pinned tensor of ``size`` bytes takes: 40 GiB take 64."""
    return 1 << (size - 1).bit_length() if size > 0 else 0


@lru_cache(maxsize=64)
def share_of_weights(model: Model, ranks: Ranks) -> float:
    """How many times its size a rank's layers take with each tensor pinned; 1 where the tensors are not known.

    Numbers, scales and zero points of a projection are tensors of their own.
    """
    if model.fields is None or model.scheme is None or model.fields.kind not in FAMILIES:
        return 1.0
    merged: dict[tuple[str, int], list[Weight]] = {}
    for tensor in model_tensors(model.fields.config, model.name):
        name = tensor.name
        for pattern, word in MERGED:
            name = pattern.sub(word, name)
        for number, size in enumerate(model.scheme.pieces(tensor)):
            weight = weight_of(tensor.name, size, model.fields.layers)
            merged.setdefault((name, number), []).append(weight)
    count = len(model.layers)
    sizes = [
        sum(of_rank(parts, Ranks(tensor=ranks.tensor), 0, count, model.fields.kv_heads).values())
        for parts in merged.values()
        if parts[0].layer is not None
    ]
    return sum(map(pinned_size, sizes)) / sum(sizes) if sum(sizes) else 1.0
