"""Bytes of shared memory that a row needs on a GB10: the closed form of Triton's mma.sync path. Pure.

Checked against compiles for sm_121 with Triton 3.5 to 3.9 (docs/measurements.md): exact for operands of one type, an
upper bound with block scales. Both GEMMs of a mixture need the same.
"""

from collections.abc import Mapping
from typing import Any, Final

LIMIT: Final = 101_376
"""Bytes that one block may have on compute capability 12.x."""
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


def dense_bytes(row: Mapping[str, int]) -> int:
    """For a row of the dense FP8 kernel with block scales: at most."""
    return moe_bytes("fp8_w8a8", [128, 128], row) or 0


def accumulators(row: Mapping[str, int]) -> int:
    """FP32 sums that one thread holds."""
    return row["BLOCK_SIZE_M"] * row["BLOCK_SIZE_N"] // (32 * row.get("num_warps", WARPS))


def clamped(engine: str, block: list[int] | None, row: Mapping[str, Any]) -> Mapping[str, Any]:
    """The row as the launch code changes it: vLLM makes BLOCK_SIZE_K no larger than a block with a scale."""
    if engine != "vllm" or not block or not all(block):
        return row
    return {**row, "BLOCK_SIZE_K": min(row["BLOCK_SIZE_K"], *block)}
