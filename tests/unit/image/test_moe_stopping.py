"""Rows of tuned files over which an engine's own Python stops, by engine, family and release."""

from collections.abc import Mapping
from typing import Any

import pytest

from gb10.image.moe.expected import nearest, stop_reason, used_rows
from gb10.image.moe.tuned_name import TunedName, parse_tuned_name

MOE = "E=8,N=64,device_name=NVIDIA_GB10"
DENSE = "N=64,K=64,device_name=NVIDIA_GB10,dtype=fp8_w8a8,block_shape=[128,128]"
MAMBA = "headdim=64,dstate=128,device_name=NVIDIA_GB10,cache_dtype=float32"
GOOD = {"BLOCK_SIZE_M": 16, "BLOCK_SIZE_K": 64, "num_warps": 4}


def meant(name: str) -> TunedName:
    found = parse_tuned_name(f"configs/{name}.json")
    assert found
    return found


def stops(engine: str, name: str, row: object, release: str = "0.33.0") -> str | None:
    return stop_reason(engine, release, meant(name), {1: row}, 64)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize("name", [MOE, f"{MOE}_down", DENSE, MAMBA, f"{MOE},dtype=int4_w4a16"])
def test_a_whole_row_stops_nobody(engine: str, name: str) -> None:
    assert stops(engine, name, GOOD) is None


@pytest.mark.parametrize(
    ("engine", "name", "absent", "why"),
    [
        ("vllm", MAMBA, "num_warps", "the row of 1 has no num_warps"),
        ("vllm", MAMBA, "BLOCK_SIZE_M", "the row of 1 has no BLOCK_SIZE_M"),
        ("sglang", DENSE, "BLOCK_SIZE_K", "the row of 1 has no BLOCK_SIZE_K"),
        ("vllm", DENSE, "BLOCK_SIZE_K", None),
        ("sglang", f"{MOE}_down", "BLOCK_SIZE_M", "the row of 1 has no BLOCK_SIZE_M"),
        ("sglang", MOE, "BLOCK_SIZE_M", None),
        ("vllm", MOE, "BLOCK_SIZE_M", None),
    ],
)
def test_the_keys_that_an_engine_reads_itself(engine: str, name: str, absent: str, why: str | None) -> None:
    row = {key: value for key, value in GOOD.items() if key != absent}
    if "_down" in name and why is None:
        return
    assert stops(engine, name, row) == why


@pytest.mark.parametrize(
    ("engine", "name", "stopped"),
    [
        ("vllm", f"{MOE},dtype=int4_w4a16", True),
        ("vllm", f"{MOE},dtype=int8_w8a16", True),
        ("vllm", f"{MOE},dtype=fp8_w8a8", False),
        ("sglang", f"{MOE},dtype=int4_w4a16", False),
        ("vllm", DENSE, True),
    ],
)
def test_a_row_that_is_no_object(engine: str, name: str, stopped: bool) -> None:
    assert stops(engine, name, "x") == ("the row of 1 is 'x', no object" if stopped else None)


def test_rows_that_no_batch_gets_are_read_by_newer_sglang_and_for_down_alone() -> None:
    rows: Mapping[int, Any] = {1: GOOD, 4096: {}}
    dense = meant(DENSE)
    assert stop_reason("sglang", "0.5.14", dense, rows, 64) == "the row of 4096 has no BLOCK_SIZE_K"
    assert stop_reason("sglang", "0.5.13", dense, rows, 64) is None
    assert stop_reason("sglang", "0.5.13", dense, rows, 4096) == "the row of 4096 has no BLOCK_SIZE_K"
    assert stop_reason("vllm", "0.33.0", dense, rows, 64) is None
    assert stop_reason("vllm", "0.33.0", meant(MAMBA), rows, 64) is None
    assert stop_reason("sglang", "0.5.13", meant(f"{MOE}_down"), rows, 64) == "the row of 4096 has no BLOCK_SIZE_M"


def test_sizes_of_two_kinds_cannot_be_compared() -> None:
    rows = {1: GOOD, 2: {**GOOD, "BLOCK_SIZE_M": "16"}}
    assert "a text in one row and a number in another" in (
        stop_reason("sglang", "1", meant(f"{MOE}_down"), rows, 2) or ""
    )
    assert stop_reason("sglang", "1", meant(MOE), rows, 2) is None


def test_a_batch_gets_the_nearest_row_and_of_two_the_first() -> None:
    rows = {4: "a", 2: "b", 64: "c"}
    assert [nearest(rows, size) for size in (1, 2, 3, 4, 33, 34, 35)] == [2, 2, 4, 4, 4, 4, 64]
    assert used_rows(rows, 3) == {2: "b", 4: "a"}
    assert used_rows(rows, 64) == rows
