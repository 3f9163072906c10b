"""What kernels pad, by the multiples that the engines' sources state; and the bytes of a tensor in each format."""

import pytest

from gb10.models.memory.engines.budget import Expert, expert_sizes, padding
from gb10.models.memory.launch import Launch
from gb10.models.memory.model import Model, model_of
from gb10.models.memory.shapes.layers import Tensor
from gb10.models.memory.weights.scheme import FP8, FP8_ROWS, MXFP4, MXFP8, NVFP4, Format
from gb10.models.memory.weights.weight import Ranks

INT4 = Format(name="int4", bits=4, group=96)
BLOCKS = Format(name="fp8", bits=8, block=128, scale=4)
SMALL = {
    "model_type": "qwen3_moe",
    "hidden_size": 1024,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "vocab_size": 32000,
    "num_experts": 8,
    "moe_intermediate_size": 96,
}


@pytest.mark.parametrize(
    ("kind", "kernel", "tensor", "wanted"),
    [
        (MXFP4, "auto", 1, (2816 + 256, 2944)),  # Marlin
        (MXFP4, "marlin", 1, (3072, 2944)),
        (MXFP4, "flashinfer_mxfp4", 1, (3072, 2944)),
        (MXFP4, "flashinfer_cutlass", 1, (2944, 2944)),
        (MXFP4, "triton", 1, (2880, 2880)),
        (MXFP4, "b12x", 1, (2880, 2876)),
        (NVFP4, "auto", 1, (2880, 2876)),
        (NVFP4, "marlin", 1, (2880, 2944)),
        (INT4, "auto", 1, (2880, 2880)),
        (INT4, "triton", 1, (2880, 2876)),
        (BLOCKS, "auto", 1, (2880, 2876)),
        (BLOCKS, "auto", 2, (2880, 2944)),
        (FP8, "auto", 2, (2880, 2876)),
    ],
)
def test_an_expert_is_padded_as_its_kernel_takes_it(
    kind: Format, kernel: str, tensor: int, wanted: tuple[int, int]
) -> None:
    found = expert_sizes(kind, Ranks(tensor=tensor), kernel, Expert(hidden=2880, inner=2876), gated=True)
    assert (found.hidden, found.inner) == wanted


def test_marlin_takes_64_where_the_columns_are_a_multiple_of_128() -> None:
    def inner(hidden: int, *, gated: bool, kernel: str) -> int:
        return expert_sizes(NVFP4, Ranks(), kernel, Expert(hidden=hidden, inner=65), gated=gated).inner

    assert inner(1024, gated=True, kernel="marlin") == 128
    assert inner(1024, gated=True, kernel="auto") == 65
    assert inner(1024, gated=False, kernel="auto") == 128
    assert expert_sizes(NVFP4, Ranks(), "marlin", Expert(hidden=1024, inner=130), gated=True).inner == 192
    assert expert_sizes(NVFP4, Ranks(), "marlin", Expert(hidden=1025, inner=130), gated=True).inner == 256


@pytest.mark.parametrize(
    ("kind", "rows", "columns", "size"),
    [
        (NVFP4, 10, 64, 320 + 40 + 8),
        (NVFP4, 10, 65, 325 + 50 + 8),
        (MXFP4, 10, 64, 320 + 20),
        (MXFP8, 10, 64, 640 + 20),
        (FP8, 10, 64, 640 + 4 + 4),
        (FP8_ROWS, 10, 64, 640 + 20),
        (BLOCKS, 129, 128, 129 * 128 + 2 * 4),
        (Format(name="int4", bits=4, group=32, scale=2, zero=4), 3, 64, 96 + 12 + 3),
        (Format(name="int4", bits=3, per_column=4, fixed=1), 1, 3, 2 + 1 + 12),
    ],
)
def test_the_bytes_of_a_tensor(kind: Format, rows: int, columns: int, size: int) -> None:
    assert kind.size(Tensor(name="x", rows=rows, columns=columns, linear=True)) == size
    assert kind.size(Tensor(name="x", rows=rows, columns=columns, linear=True, copies=3)) == 3 * size


def quantized(**scheme: object) -> Model:
    return model_of({**SMALL, "quantization_config": scheme}, "a/b", "its config")


MXFP4_MODEL = {"quant_method": "mxfp4"}
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 32}


def test_the_sum_is_that_of_every_expert_and_layer() -> None:
    """96 becomes 128 columns of 1,024: three matrices, 8 experts, 4 layers; half a byte, and a scale for each 32."""
    launch = Launch(engine="vllm", experts="marlin")
    found = padding(quantized(**MXFP4_MODEL), launch, 0)
    more = (128 - 96) * 1024 * 3 * 8 * 4
    assert found.words == "96 as 128"
    assert found.size == more // 2 + more // 32
    assert padding(quantized(**MXFP4_MODEL), Launch(engine="sglang", experts="marlin"), 0).size == found.size


def test_ranks_and_stages_share_what_is_padded() -> None:
    whole = padding(quantized(**MXFP4_MODEL), Launch(engine="vllm", experts="marlin"), 0).size
    copies = Launch(engine="vllm", experts="marlin", ranks=Ranks(expert_copies=2))
    assert padding(quantized(**MXFP4_MODEL), copies, 0).size == whole // 2
    stages = Launch(engine="vllm", experts="marlin", ranks=Ranks(stages=2))
    assert [padding(quantized(**MXFP4_MODEL), stages, stage).size for stage in (0, 1)] == [whole // 2] * 2
    tensor = Launch(engine="vllm", experts="marlin", ranks=Ranks(tensor=2))
    assert padding(quantized(**MXFP4_MODEL), tensor, 0).words == "48 as 128"


def test_other_engines_and_models_without_a_scheme_are_not_padded() -> None:
    for engine in ("trtllm", "llama-cpp"):
        assert padding(quantized(**MXFP4_MODEL), Launch(engine=engine), 0).size == 0
    assert padding(model_of(SMALL, "a/b", "its config"), Launch(engine="vllm"), 0).size == 0
    assert padding(quantized(**GPTQ), Launch(engine="sglang"), 0).size == 0
    assert padding(quantized(**GPTQ), Launch(engine="vllm"), 0).size > 0
