"""In an image, without a GPU: FlashInfer's own look-ups for a model of head size 128, with its JIT compiler forbidden.

Prints what was found, and what was refused for a head size that is not among the image's kernels.
"""

import json
import os

os.environ |= {"FLASHINFER_DISABLE_JIT": "1", "FLASHINFER_CUDA_ARCH_LIST": "12.1f"}

import torch
from flashinfer import activation, cascade, decode, norm, page, prefill, rope, sampling
from flashinfer.jit.core import MissingJITCacheError

PLAIN = (torch.bfloat16, torch.int32)
CACHES = (torch.bfloat16, torch.float8_e4m3fn)


def attention(size: int, cache: torch.dtype) -> list[object]:
    """What a wrapper of FlashInfer's asks for when it plans: no window, no cap, no positions of its own."""
    dtype, index = PLAIN
    shape = (dtype, cache, dtype, index, size, size, 0, False, False)
    return [prefill.get_batch_prefill_module("fa2", *shape, False), decode.get_batch_decode_module(*shape)]


def main() -> None:
    modules = [
        norm.get_norm_module(),
        rope.get_rope_module(),
        page.get_page_module(),
        cascade.get_cascade_module(),
        sampling.get_sampling_module(),
        activation.get_act_and_mul_module("silu"),
    ]
    found = len(modules) + sum(len(attention(128, cache)) for cache in CACHES)
    try:
        attention(192, torch.bfloat16)
    except MissingJITCacheError as error:
        refused = error.spec.name
    print(json.dumps({"found": found, "refused": refused}))


main()
