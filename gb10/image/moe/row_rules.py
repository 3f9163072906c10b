"""Rows of tuned files: what is wrong with one on a GB10, its shared memory, and which are worth timing. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

from gb10.image.moe.tuned_name import Family
from gb10.image.recipe.arch import SHARED_MEMORY

STAGES, WARPS = 3, 4
"""Triton's own, where a row has none."""
SIZES: Final[Mapping[str | None, int]] = {None: 2, "float32": 4, "fp8_w8a8": 1, "int8_w8a8": 1}
"""Bytes of a number of both operands."""
UNPACKED: Final = ("int8_w8a16", "fp8_w8a16", "int4_w4a16")
"""Weights that the kernel converts to 16 bits before it multiplies."""
SPILLING: Final = 256
"""Accumulators of a thread from which most kernels keep some in local memory."""


def moe_bytes(dtype: str | None, block: list[int] | None, row: Mapping[str, int]) -> int | None:
    """For a row of the fused MoE kernel; None where no form is known. ``block``: the edges of a block with a scale."""
    rows, columns, depth = row["BLOCK_SIZE_M"], row["BLOCK_SIZE_N"], row["BLOCK_SIZE_K"]
    buffers = max(row.get("num_stages", STAGES) - 1, 1)
    if dtype in SIZES:
        scratch = 4 * columns if block else 0
        return (rows + columns) * depth * SIZES[dtype] * buffers + scratch
    if dtype in UNPACKED:
        packed = 0 if dtype == "int4_w4a16" else columns * depth
        return (2 * rows * depth + packed) * buffers + 2 * columns * depth
    return None


def accumulators(row: Mapping[str, int]) -> int:
    """FP32 sums that one thread holds."""
    return row["BLOCK_SIZE_M"] * row["BLOCK_SIZE_N"] // (32 * row.get("num_warps", WARPS))


def clamped(engine: str, block: list[int] | None, row: Mapping[str, Any]) -> Mapping[str, Any]:
    """The row as the launch code changes it: vLLM makes BLOCK_SIZE_K no larger than a block with a scale."""
    if engine != "vllm" or not block or not all(block):
        return row
    return {**row, "BLOCK_SIZE_K": min(row["BLOCK_SIZE_K"], *block)}


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
SMALLEST_OF_8_BITS: Final = 32
"""Triton 3.8.0's least depth of a product of 8-bit numbers (min_dot_size of its compiler for NVIDIA)."""
EIGHT_BITS: Final = ("fp8_w8a8", "int8_w8a8")


@dataclass(frozen=True, slots=True)
class RowJudgement:
    """A row's bytes of shared memory (None: no formula), what stops or spoils it, and what is only worth a look."""

    shared: int | None
    problems: tuple[str, ...]
    remarks: tuple[str, ...] = ()


def judge_row(
    engine: str, family: Family, shape: Mapping[str, Any], row: object, parameters: Sequence[str], *, grouped: int
) -> RowJudgement:
    """A row as Triton gets it. ``parameters``: those of the kernel. ``grouped``: the group of int4 and int8 scales."""
    packed = family == "moe" and shape["dtype"] in PACKED
    problems = _keys(family, row, parameters, packed=packed)
    if problems or not isinstance(row, Mapping):
        return RowJudgement(None, tuple(problems))
    if family in ("mamba", "lora"):
        return RowJudgement(None, tuple(_warps(row)))
    block = shape["block"] if shape.get("block") and all(shape["block"]) else None
    whole = clamped(engine if family == "moe" else "", block, row)
    depth = whole["BLOCK_SIZE_K"]

    odd = [name for name in TILES if whole[name] < 1 or whole[name] & (whole[name] - 1)]
    problems = [f"{name}={whole[name]} is no power of two" for name in odd]
    small = [name for name in TILES if name not in odd and whole[name] < SMALLEST]
    problems += [f"{name}={whole[name]} is less than {SMALLEST}" for name in small]
    if (family == "dense" or shape.get("dtype") in EIGHT_BITS) and SMALLEST <= depth < SMALLEST_OF_8_BITS:
        problems.append(
            f"BLOCK_SIZE_K={depth} is less than {SMALLEST_OF_8_BITS}: Triton does not multiply 8-bit numbers so"
        )
    problems += ["GROUP_SIZE_M is less than 1"] if whole["GROUP_SIZE_M"] < 1 else []
    problems += ["num_stages is less than 1"] if whole.get("num_stages", 1) < 1 else []
    problems += _warps(whole)
    if block and depth > block[1]:  # such a tile is multiplied by the first of its scales alone
        problems.append(f"BLOCK_SIZE_K={depth} spans several scales of {block[1]}, and one is used: wrong numbers")
    if packed and engine == "vllm" and depth % grouped and grouped % depth:
        problems.append(f"BLOCK_SIZE_K={depth} and scales of {grouped} do not divide")

    # at most, for a row of the dense FP8 kernel with block scales
    dense = family == "dense"
    shared = (moe_bytes("fp8_w8a8", [128, 128], whole) or 0) if dense else moe_bytes(shape["dtype"], block, whole)
    if shared is not None and shared > SHARED_MEMORY:
        problems.append(f"it needs {shared:,} bytes of shared memory; a GB10 has {SHARED_MEMORY:,}")
    sums = accumulators(whole)
    remarks = (f"each thread has {sums} sums: most such kernels spill",) if sums >= SPILLING else ()
    return RowJudgement(shared, tuple(problems), remarks)


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


def _warps(row: Mapping[str, int]) -> list[str]:
    warps = row.get("num_warps", 4)
    return [] if warps in (1, 2, 4, 8, 16, 32) else [f"num_warps={warps} is none of 1, 2, 4, 8, 16, 32"]


SPACE: Final[Mapping[str, tuple[int, ...]]] = {
    "BLOCK_SIZE_M": (16, 32, 64, 128, 256),
    "BLOCK_SIZE_N": (32, 64, 128, 256),
    "BLOCK_SIZE_K": (64, 128, 256),
    "GROUP_SIZE_M": (1, 16, 32, 64),
    "num_warps": (4, 8),
    "num_stages": (2, 3, 4, 5),
}
"""What both engines' own tuners try on NVIDIA GPUs: 1,920 rows for each batch size."""
LADDER: Final = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024, 1536, 2048, 3072, 4096)
MOST_SUMS: Final = 128
"""Sums of a thread; kernels with more keep some in local memory."""


def upstream_space() -> Iterator[dict[str, int]]:
    """All 1,920 rows."""
    for values in product(*SPACE.values()):
        yield dict(zip(SPACE, values, strict=True))


def candidates(engine: str, shape: Mapping[str, Any]) -> tuple[dict[str, int], ...]:
    """The rows to screen, with GROUP_SIZE_M 1: the same for every batch size, so each is compiled once.

    Left out: what does not fit, rows that compile to the same kernel, and tiles with more sums than registers hold.
    """
    found: dict[tuple[int, ...], dict[str, int]] = {}
    block = shape["block"]
    for row in upstream_space():
        whole = dict(clamped(engine, block, {**row, "GROUP_SIZE_M": 1}))
        shared = moe_bytes(shape["dtype"], block, whole)
        if shared is None or shared > SHARED_MEMORY or (block and whole["BLOCK_SIZE_K"] > block[1]):
            continue
        if accumulators(whole) <= MOST_SUMS:
            found[tuple(whole.values())] = whole
    return tuple(found.values())


def kernel_count(rows: Iterable[Mapping[str, int]]) -> int:
    """Kernels to compile: each different row once for each of the two GEMMs."""
    return 2 * len({tuple(sorted(row.items())) for row in rows})
