"""Rows over which an engine's own Python stops, before Triton gets them: by rules of ours. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from packaging.version import Version

from gb10.image.moe.tuned_name import Meant

CLAMPS: Final = Version("0.5.14")
"""SGLang from here reads BLOCK_SIZE_K of every row of a dense file."""


def stopping(engine: str, version: str, meant: Meant, rows: Mapping[int, Any], most: int) -> str | None:
    """Why the engine stops at a row that some batch size up to ``most`` gets; None when it does not."""
    needed = _needed(engine, meant)
    every = (engine == "sglang" and meant.family == "dense" and Version(version) >= CLAMPS) or bool(
        meant.shape.get("down")
    )
    for size, row in rows.items() if every else reached(rows, most).items():
        if needed is not None and not isinstance(row, Mapping):
            return f"the row of {size} is {row!r:.40}, no object"
        absent = [name for name in needed or () if name not in row]
        if absent:
            return f"the row of {size} has no {absent[0]}"
    kinds = {type(row["BLOCK_SIZE_M"]) for row in rows.values()} if meant.shape.get("down") else set()
    return "BLOCK_SIZE_M is a text in one row and a number in another" if {str, int} <= kinds else None


def _needed(engine: str, meant: Meant) -> tuple[str, ...] | None:
    """Keys that the engine itself reads of a row; None when it hands the row on as it is."""
    if meant.family == "mamba":
        return ("BLOCK_SIZE_M", "num_warps")
    if meant.family == "dense":
        return () if engine == "vllm" else ("BLOCK_SIZE_K",)
    if meant.family == "moe" and meant.shape["down"]:
        return ("BLOCK_SIZE_M",)
    packed = meant.family == "moe" and meant.shape["dtype"] in ("int4_w4a16", "int8_w8a16")
    return () if engine == "vllm" and packed else None


def reached(rows: Mapping[int, Any], most: int) -> dict[int, Any]:
    """The rows that a batch of 1 to ``most`` gets."""
    return {key: rows[key] for key in {nearest(rows, size) for size in range(1, most + 1)}}


def nearest(rows: Mapping[int, Any], size: int) -> int:
    """The batch size in a file whose row is taken; of two equally near, the first in the file."""
    return min(rows, key=lambda key: abs(key - size))
