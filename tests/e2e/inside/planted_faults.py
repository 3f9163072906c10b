"""Faults of an engine, as a plugin that vLLM loads into each of its processes; PLANTED names those that it has.

* ``batch``: tokens are wrong while exactly five requests are sampled at once
* ``drafts``: tokens are wrong while drafts of three requests and more are judged at once
* ``switch``: tokens are wrong where GB10_CUTLASS_MOE=0 takes our kernels out
* ``always``: tokens are wrong

Without a fault it obeys the switch as patch vllm/0003 does, by the line that names it: the CPU has no such layer.
"""

import os

from torch import Tensor
from vllm.logger import init_logger
from vllm.v1.sample.metadata import SamplingMetadata
from vllm.v1.sample.rejection_sampler import RejectionSampler
from vllm.v1.sample.sampler import Sampler
from vllm.v1.spec_decode.metadata import SpecDecodeMetadata

FIVE, THREE = 5, 3


def plant() -> None:
    """The entry point."""
    faults = os.environ.get("PLANTED", "").split()
    switched = os.environ.get("GB10_CUTLASS_MOE") == "0"
    if switched:
        init_logger("vllm.planted_faults").warning("GB10_CUTLASS_MOE=0: FP8 MoE layers do not use gb10's kernels")
    always = "always" in faults or ("switch" in faults and switched)
    if always or "batch" in faults:
        _spoil_batches(always=always)
    if "drafts" in faults:
        _spoil_drafts()


def _spoil(logits: Tensor) -> None:
    """Each token becomes the one before it."""
    logits.copy_(logits.roll(-1, dims=-1))


def _spoil_batches(*, always: bool) -> None:
    right = Sampler.forward

    def forward(self: Sampler, logits: Tensor, sampling_metadata: SamplingMetadata, **rest: object) -> object:
        if always or logits.shape[0] == FIVE:
            _spoil(logits)
        return right(self, logits, sampling_metadata, **rest)

    Sampler.forward = forward


def _spoil_drafts() -> None:
    right = RejectionSampler.forward

    def forward(
        self: RejectionSampler, metadata: SpecDecodeMetadata, draft_probs: Tensor | None, logits: Tensor, *rest: object
    ) -> object:
        if len(metadata.num_draft_tokens) >= THREE:
            _spoil(logits)
        return right(self, metadata, draft_probs, logits, *rest)

    RejectionSampler.forward = forward
