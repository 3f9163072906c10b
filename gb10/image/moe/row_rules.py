"""What is wrong with a row on a GB10: keys that the kernel does not take, tiles that cannot be, wrong numbers. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gb10.image.moe.engine_table import Family
from gb10.image.moe.shared_memory import LIMIT, SPILLING, accumulators, clamped, dense_bytes, moe_bytes

LAUNCH: Final = frozenset(
    ("num_warps", "num_stages", "num_ctas", "maxnreg", "enable_fp_fusion", "launch_pdl", "launch_cooperative_grid")
)
"""Options that Triton itself takes at a launch for CUDA."""
TILES: Final = ("BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K")
NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    "moe": (*TILES, "GROUP_SIZE_M"),
    "dense": (*TILES, "GROUP_SIZE_M"),
    "mamba": ("BLOCK_SIZE_M", "num_warps"),
    "lora": ("BLOCK_N", "BLOCK_K"),
}
PACKED: Final = ("int4_w4a16", "int8_w8a16")
"""Types that have a kernel of their own."""
SMALLEST: Final = 16
"""The least side of a tile that Triton multiplies."""


@dataclass(frozen=True, slots=True)
class Weighed:
    """A row's bytes of shared memory (None: no formula), what stops or spoils it, and what is only worth a look."""

    shared: int | None
    problems: tuple[str, ...]
    remarks: tuple[str, ...] = ()


def weigh(
    engine: str, family: Family, shape: Mapping[str, Any], row: object, parameters: Sequence[str], *, grouped: int
) -> Weighed:
    """A row as Triton gets it. ``parameters``: those of the kernel. ``grouped``: the group of int4 and int8 scales."""
    packed = family == "moe" and shape["dtype"] in PACKED
    problems = _keys(family, row, parameters, packed=packed)
    if problems or not isinstance(row, Mapping):
        return Weighed(None, tuple(problems))
    if family in ("mamba", "lora"):
        return Weighed(None, tuple(_warps(row)))
    block = shape["block"] if shape.get("block") and all(shape["block"]) else None
    whole = clamped(engine if family == "moe" else "", block, row)
    problems = [*_tiles(whole), *_warps(whole), *_scales(block, whole)]
    problems += _groups(engine, family, shape, whole, grouped)
    shared = dense_bytes(whole) if family == "dense" else moe_bytes(shape["dtype"], block, whole)
    if shared is not None and shared > LIMIT:
        problems.append(f"it needs {shared:,} bytes of shared memory; a GB10 has {LIMIT:,}")
    return Weighed(shared, tuple(problems), tuple(_remarks(whole)))


def _keys(family: Family, row: object, parameters: Sequence[str], *, packed: bool) -> list[str]:
    if not isinstance(row, Mapping):
        return [f"the row is {row!r:.40}, no object"]
    # vLLM's launch adds SPLIT_K for one kernel, and expects it in the row for that of packed weights.
    needed = (*NEEDED[family], "SPLIT_K") if packed and "SPLIT_K" in parameters else NEEDED[family]
    absent = [name for name in needed if name not in row]
    wrong = [name for name, value in row.items() if type(value) is not int and name in (*NEEDED[family], *LAUNCH)]
    known = {*parameters, *LAUNCH, *NEEDED[family], "SPLIT_K"} if family == "mamba" else {*parameters, *LAUNCH}
    strange = [name for name in row if name not in known] if parameters else []
    return [
        *(f"{name} is missing" for name in absent),
        *(f"{name} is {row[name]!r:.40}, no whole number" for name in wrong),
        *(f"the kernel takes no {name}" for name in strange),
    ]


def _tiles(row: Mapping[str, int]) -> list[str]:
    odd = [name for name in TILES if row[name] < 1 or row[name] & (row[name] - 1)]
    small = [name for name in TILES if name not in odd and row[name] < SMALLEST]
    return [
        *(f"{name}={row[name]} is no power of two" for name in odd),
        *(f"{name}={row[name]} is less than {SMALLEST}" for name in small),
        *(["GROUP_SIZE_M is less than 1"] if row["GROUP_SIZE_M"] < 1 else []),
        *(["num_stages is less than 1"] if row.get("num_stages", 1) < 1 else []),
    ]


def _warps(row: Mapping[str, int]) -> list[str]:
    warps = row.get("num_warps", 4)
    return [] if warps in (1, 2, 4, 8, 16, 32) else [f"num_warps={warps} is none of 1, 2, 4, 8, 16, 32"]


def _scales(block: list[int] | None, row: Mapping[str, int]) -> list[str]:
    """A tile deeper than a block with a scale is multiplied by the first of its scales alone: wrong numbers."""
    depth = row["BLOCK_SIZE_K"]
    if block and depth > block[1]:
        return [f"BLOCK_SIZE_K={depth} spans several scales of {block[1]}, and one is used: wrong numbers"]
    return []


def _groups(engine: str, family: Family, shape: Mapping[str, Any], row: Mapping[str, int], grouped: int) -> list[str]:
    depth = row["BLOCK_SIZE_K"]
    packed = family == "moe" and engine == "vllm" and shape["dtype"] in PACKED
    if packed and depth % grouped and grouped % depth:
        return [f"BLOCK_SIZE_K={depth} and scales of {grouped} do not divide"]
    return []


def _remarks(row: Mapping[str, int]) -> list[str]:
    if accumulators(row) >= SPILLING:
        return [f"each thread has {accumulators(row)} sums: most such kernels spill"]
    return []
