"""Rows worth timing on a GB10: the tuners' space, less what does not fit, spills or compiles to the same. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import Any, Final

from gb10.image.moe.shared_memory import LIMIT, accumulators, clamped, moe_bytes

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
        if shared is None or shared > LIMIT or (block and whole["BLOCK_SIZE_K"] > block[1]):
            continue
        if accumulators(whole) <= MOST_SUMS:
            found[tuple(whole.values())] = whole
    return tuple(found.values())


def compiles(rows: Iterable[Mapping[str, int]]) -> int:
    """Kernels to compile: each different row once for each of the two GEMMs."""
    return 2 * len({tuple(sorted(row.items())) for row in rows})
