"""The tensors that the engines' fused MoE code is launched with, for each type of experts, engine and GEMM."""

from types import SimpleNamespace
from typing import Any, Final

import pytest

from gb10.image.moe.child.launching import LAUNCHES, grouped, launch_arguments, quantized
from gb10.image.moe.child.shape_only import Tensor, dtype
from tests.golden.conftest import Golden, section

TYPES: Final[dict[str, dict[str, Any]]] = {
    "bfloat16": {"dtype": "bfloat16", "block": None, "per_channel": False},
    "float32": {"dtype": "float32", "block": None, "per_channel": False},
    "fp8 in blocks": {"dtype": "fp8_w8a8", "block": [128, 100], "per_channel": False},
    "fp8 by channel": {"dtype": "fp8_w8a8", "block": None, "per_channel": True},
    "int8": {"dtype": "int8_w8a8", "block": None, "per_channel": False},
    "int8 weights": {"dtype": "int8_w8a16", "block": None, "per_channel": False},
    "int4 weights": {"dtype": "int4_w4a16", "block": None, "per_channel": False},
}


def text_of(value: object) -> str:
    if isinstance(value, dtype):
        return str(value).removeprefix("torch.")
    return f"{tuple(value.shape)} {value.dtype}".replace("torch.", "") if isinstance(value, Tensor) else repr(value)


def shown(made: dict[str, Any]) -> str:
    return "; ".join(f"{name} {text_of(value)}" for name, value in made.items() if value is not None)


def test_arguments_of_every_launch(golden: Golden) -> None:
    tl, found = SimpleNamespace(float32="tl.float32", bfloat16="tl.bfloat16"), []
    names = """
        A B C A_scale B_scale topk_weights topk_ids sorted_token_ids expert_ids num_tokens_post_padded
        mul_routed_weight top_k config compute_type per_channel_quant block_shape
        use_fp8_w8a8 use_int8_w8a8 use_int8_w8a16 use_int4_w4a16
    """
    scope: dict[str, Any] = {}
    exec(f"def launch({', '.join(names.split())}): ...", scope)  # noqa: S102 # the names are above
    for engine in ("vllm", "sglang"):
        for name, shape in TYPES.items():
            for gemm, size in (("up", 3), ("up", 40), ("down", 40)):
                job = {
                    "shape": {"E": 96, "N": 300, **shape},
                    "size": size,
                    "topk": 8,
                    "hidden": 1000,
                    "group": 50,
                    "gemm": gemm,
                    "config": {"BLOCK_SIZE_M": 16},
                }
                made = launch_arguments(scope["launch"], engine, "moe", job, tl)
                found.append(section(f"{engine}, {name}, {gemm} of {size}", shown(made)))
    exec("def dense(A, B, As, Bs, block_size, output_dtype, more=1): ...", scope)  # noqa: S102
    job = {"shape": {"K": 1000, "N": 300, "block": [128, 100]}, "size": 5}
    found.append(section("a linear layer", shown(launch_arguments(scope["dense"], "vllm", "dense", job, tl))))
    golden("render/moe-launches.txt", "\n".join(found) + "\n")


def test_a_parameter_that_is_not_known_is_named() -> None:
    def launch(A: object, own: object, other: object = 1, *, more: object) -> None:
        """Two parameters without a default that nobody knows."""

    job = {"shape": {"K": 8, "N": 8, "block": [4, 4]}, "size": 1}
    with pytest.raises(LookupError, match="the launch takes own, more"):
        launch_arguments(launch, "vllm", "dense", job, None)


def test_what_sglang_quantizes_keeps_its_shape_and_gets_scales() -> None:
    given, found = Tensor((3, 250), "bfloat16"), {}
    for name, function in quantized().items():
        arguments = (given,) if name in ("scaled_fp8_quant", "per_token_quant_int8") else (given, 100)
        found[name] = [text_of(one) for one in function(*arguments)]
    assert found == {
        "scaled_fp8_quant": ["(3, 250) float8_e4m3fn", "(1,) float32"],
        "sglang_per_token_group_quant_fp8": ["(3, 250) float8_e4m3fn", "(3, 3) float32"],
        "per_token_group_quant_fp8": ["(3, 250) float8_e4m3fn", "(3, 3) float32"],
        "sglang_per_token_group_quant_int8": ["(3, 250) int8", "(3, 3) float32"],
        "per_token_group_quant_int8": ["(3, 250) int8", "(3, 3) float32"],
        "per_token_quant_int8": ["(3, 250) int8", "(3, 1) float32"],
    }
    each = quantized()["scaled_fp8_quant"](given, use_per_token_if_dynamic=True)
    assert text_of(each[1]) == "(3, 1) float32"


def test_tiles_are_grouped_where_an_expert_has_several() -> None:
    request = {"topk": 8, "shape": {"E": 64}}
    assert grouped(request, {"BLOCK_SIZE_M": 16}, 128) is None
    assert grouped(request, {"BLOCK_SIZE_M": 16}, 136) == {"BLOCK_SIZE_M": 16, "GROUP_SIZE_M": 16}
    assert len(LAUNCHES) == 6
