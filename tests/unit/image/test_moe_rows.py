"""Rows of tuned files: bytes of shared memory against compiled ones, and what is wrong with a row."""

import pytest

from gb10.image.moe.child.cut import Cut, Module
from gb10.image.moe.row_rules import accumulators, clamped, judge_row, moe_bytes
from gb10.image.recipe.arch import SHARED_MEMORY


def row(m: int, n: int, k: int, warps: int = 4, stages: int = 3, **more: object) -> dict[str, int]:
    made = {"BLOCK_SIZE_M": m, "BLOCK_SIZE_N": n, "BLOCK_SIZE_K": k, "GROUP_SIZE_M": 1}
    return {**made, "num_warps": warps, "num_stages": stages, **more}  # type: ignore[dict-item]


# Bytes that Triton's compiler reports for sm_121 (docs/measurements.md).
@pytest.mark.parametrize(
    ("dtype", "block", "tile", "compiled"),
    [
        (
            "fp8_w8a8",
            None,
            row(128, 256, 128, 8, 4),
            147_456,
        ),  # SGLang 0.5.10's default beyond as many tokens as experts
        ("fp8_w8a8", None, row(64, 128, 128, 4, 4), 73_728),
        ("fp8_w8a8", None, row(64, 128, 256, 4, 2), 49_152),
        (None, None, row(128, 128, 64, 8, 3), 65_536),
    ],
)
def test_bytes_are_those_of_the_compiler(
    dtype: str | None, block: list[int] | None, tile: dict[str, int], compiled: int
) -> None:
    assert moe_bytes(dtype, block, tile) == compiled


def test_a_type_without_a_form_has_no_bytes() -> None:
    assert moe_bytes("nvfp4", None, row(16, 64, 128)) is None


def test_vllm_cuts_a_deep_tile_to_the_block_and_sglang_does_not() -> None:
    deep = row(16, 64, 256)
    assert clamped("vllm", [128, 128], deep)["BLOCK_SIZE_K"] == 128
    assert clamped("sglang", [128, 128], deep)["BLOCK_SIZE_K"] == 256
    assert accumulators(row(256, 256, 64, 8)) == 256


SHAPE = {"dtype": "fp8_w8a8", "block": None, "per_channel": False, "down": False}
PARAMETERS = ("a_ptr", "BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "GROUP_SIZE_M", "top_k")


@pytest.mark.parametrize(
    ("engine", "block", "tile", "problem"),
    [
        ("sglang", None, row(128, 256, 128, 8, 4), "147,456 bytes"),
        ("sglang", [128, 128], row(16, 64, 256), "wrong numbers"),
        ("sglang", None, row(16, 64, 128, SPLIT_K=1), "takes no SPLIT_K"),
        ("sglang", None, row(16, 48, 128), "no power of two"),
        ("sglang", None, row(8, 64, 128), "less than 16"),
        ("sglang", None, row(16, 64, 128, 3), "num_warps=3"),
        ("sglang", None, row(16, 64, 128, 4, 0), "num_stages"),
        ("sglang", None, {"BLOCK_SIZE_M": 16}, "BLOCK_SIZE_N is missing"),
        ("sglang", None, row(16, 64, 128, num_warps="4"), "no whole number"),
        ("sglang", None, row(16, 64, 128, num_warps=True), "no whole number"),
        ("sglang", None, None, "no object"),
        ("vllm", [128, 128], row(16, 64, 256), ""),
        ("vllm", None, row(64, 128, 128), ""),
    ],
)
def test_problems_of_rows(engine: str, block: list[int] | None, tile: object, problem: str) -> None:
    found = judge_row(engine, "moe", {**SHAPE, "block": block}, tile, PARAMETERS, grouped=128)
    assert (problem in " ".join(found.problems)) if problem else found.problems == ()


def test_a_row_at_the_limit_fits() -> None:
    found = judge_row("vllm", "moe", SHAPE, row(32, 64, 256, 4, 4), PARAMETERS, grouped=128)
    assert found.shared == 73_728
    assert found.shared <= SHARED_MEMORY
    assert found.problems == ()


SOURCE = """
import os
from elsewhere import helper
EDGE = 4
TABLE: dict[str, int] = {"a": EDGE}
@triton.jit
def kernel(x): raise SystemExit
def inner(x: Missing) -> Missing: return TABLE["a"] + helper(x)
def outer(x):
    from elsewhere import late
    return late(inner(x))
def other(): return undefined_name
"""


def test_only_what_is_wanted_is_cut_and_run() -> None:
    cut = Cut(Module(SOURCE, "m.py"), ("outer",), {})
    space = cut.run({}, lambda module, name: lambda value: value * 2)
    assert space["outer"](3) == 20
    assert "other" not in space
    assert "kernel" not in space


def test_a_release_without_the_function_is_an_error() -> None:
    with pytest.raises(LookupError, match=r"m\.py has no absent"):
        Cut(Module(SOURCE, "m.py"), ("absent",), {})


DENSE = {"block": [128, 128]}


def problems(
    tile: object, family: str = "moe", engine: str = "sglang", grouped: int = 128, **shape: object
) -> list[str]:
    whole = {**(DENSE if family == "dense" else SHAPE), **shape}
    return list(judge_row(engine, family, whole, tile, PARAMETERS, grouped=grouped).problems)  # type: ignore[arg-type]


def test_a_good_row_has_no_problem_at_its_limits() -> None:
    assert problems(row(16, 16, 32, 1, 1)) == []
    assert problems(row(16, 16, 16, 1, 1), dtype="bf16") == []
    assert [problems(row(16, 16, 32, warps, 1)) for warps in (2, 4, 8, 16, 32)] == [[]] * 5
    assert problems(row(16, 64, 128, block=[128, 128])) == ["the kernel takes no block"]
    assert problems(row(16, 64, 128), block=[128, 128]) == []
    assert problems(row(16, 64, 64), family="dense") == []


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"BLOCK_SIZE_M": None}, "BLOCK_SIZE_M is missing"),
        ({"GROUP_SIZE_M": None}, "GROUP_SIZE_M is missing"),
        ({"GROUP_SIZE_M": 0}, "GROUP_SIZE_M is less than 1"),
        ({"BLOCK_SIZE_N": "64"}, "BLOCK_SIZE_N is '64', no whole number"),
        ({"num_stages": 2.0}, "num_stages is 2.0, no whole number"),
        ({"num_warps": True}, "num_warps is True, no whole number"),
        ({"BLOCK_SIZE_K": 0}, "BLOCK_SIZE_K=0 is no power of two"),
        ({"BLOCK_SIZE_K": 8}, "BLOCK_SIZE_K=8 is less than 16"),
        ({"BLOCK_SIZE_K": 1}, "BLOCK_SIZE_K=1 is less than 16"),
        ({"BLOCK_SIZE_N": -64}, "BLOCK_SIZE_N=-64 is no power of two"),
        ({"BLOCK_SIZE_N": 96}, "BLOCK_SIZE_N=96 is no power of two"),
        ({"num_stages": 0}, "num_stages is less than 1"),
        ({"num_warps": 64}, "num_warps=64 is none of 1, 2, 4, 8, 16, 32"),
        ({"waves_per_eu": 2}, "the kernel takes no waves_per_eu"),
    ],
)
def test_what_is_wrong_with_a_row(change: dict[str, object], found: str) -> None:
    made = {name: value for name, value in {**row(16, 64, 128), **change}.items() if value is not None}
    assert problems(made) == [found]


@pytest.mark.parametrize("dtype", ["fp8_w8a8", "int8_w8a8", "bf16"])
def test_a_product_of_8_bit_numbers_has_a_depth_of_32(dtype: str) -> None:
    made = judge_row("vllm", "moe", {**SHAPE, "dtype": dtype}, row(16, 64, 16), PARAMETERS, grouped=128).problems
    assert any("less than 32" in one for one in made) is (dtype != "bf16")


def test_rows_of_other_families_need_other_keys() -> None:
    assert problems({"BLOCK_SIZE_M": 8, "num_warps": 4}, family="mamba") == []
    assert problems({"BLOCK_SIZE_M": 8, "num_warps": 4, "SPLIT_K": 1}, family="mamba") == []
    assert problems({"BLOCK_SIZE_M": 8, "num_warps": 5}, family="mamba") == [
        "num_warps=5 is none of 1, 2, 4, 8, 16, 32"
    ]
    assert "BLOCK_N is missing" in problems({}, family="lora")
    assert problems("x") == ["the row is 'x', no object"]


def test_packed_weights_are_read_in_halves_and_spread_to_16_bits() -> None:
    """Activations of 2 bytes, twice; weights of 8 bits take their bytes besides, those of 4 bits come with a pass."""
    tile = row(16, 64, 128, num_stages=3)
    both = 2 * 16 * 128 * 2 + 2 * 64 * 128
    assert moe_bytes("int4_w4a16", None, tile) == both
    assert moe_bytes("int8_w8a16", None, tile) == both + 64 * 128 * 2
    assert moe_bytes("int8_w8a16", None, row(16, 64, 128, num_stages=1)) == 2 * 16 * 128 + 3 * 64 * 128


def test_packed_weights_of_vllm_need_their_split_and_scales_that_divide() -> None:
    packed = {"dtype": "int4_w4a16"}
    with_split = (*PARAMETERS, "SPLIT_K")

    def found(engine: str, tile: dict[str, int], grouped: int, parameters: tuple[str, ...] = with_split) -> list[str]:
        return list(judge_row(engine, "moe", {**SHAPE, **packed}, tile, parameters, grouped=grouped).problems)

    assert found("vllm", row(16, 64, 128), 128) == ["SPLIT_K is missing"]
    assert found("vllm", row(16, 64, 128, SPLIT_K=1), 128) == []
    assert found("vllm", row(16, 64, 64, SPLIT_K=1), 128) == []
    assert found("vllm", row(16, 64, 128, SPLIT_K=1), 64) == []
    assert found("vllm", row(16, 64, 128, SPLIT_K=1), 96) == ["BLOCK_SIZE_K=128 and scales of 96 do not divide"]
    assert found("sglang", row(16, 64, 128, SPLIT_K=1), 96) == []


def test_a_tile_may_be_as_deep_as_its_block() -> None:
    assert problems(row(16, 64, 128), block=[128, 128]) == []
    assert problems(row(16, 64, 256), block=[128, 128]) == [
        "BLOCK_SIZE_K=256 spans several scales of 128, and one is used: wrong numbers"
    ]
