"""How many bytes a tensor takes in a format: its numbers, and their scales. Pure.

Layouts: compressed-tensors 0.15 (``*-quantized``), ModelOpt's HF export, AutoGPTQ and AutoAWQ, DeepSeek's FP8 blocks,
OCP's microscaling formats.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Final

from gb10.models.memory.shapes.tensor import Tensor


@dataclass(frozen=True, kw_only=True, slots=True)
class Format:
    """``bits`` of a number. A scale of ``scale`` bytes for each ``group`` columns, or for each block of columns and
    rows, or for each row, or for each tensor; ``zero`` bits of a zero point beside each scale.

    ``fixed`` are bytes of each tensor: a scale of the whole, a shape; ``per_column`` are bytes of each column.
    """

    name: str
    bits: int
    group: int = 0
    block: int = 0
    scale: int = 0
    by_row: bool = False
    zero: int = 0
    fixed: int = 0
    per_column: int = 0

    def size(self, tensor: Tensor) -> int:
        """Bytes of a tensor with its scales, in all copies."""
        rows, columns = tensor.rows, tensor.columns
        numbers = ceil(rows * columns * self.bits / 8)
        if self.block:
            scales = ceil(rows / self.block) * ceil(columns / self.block)
        elif self.group:
            scales = rows * ceil(columns / self.group)
        else:
            scales = rows if self.by_row else 1
        extra = scales * self.scale + ceil(scales * self.zero / 8) + self.fixed + columns * self.per_column
        return (numbers + extra) * tensor.copies


NVFP4: Final = Format(name="nvfp4", bits=4, group=16, scale=1, fixed=8)
MXFP4: Final = Format(name="mxfp4", bits=4, group=32, scale=1)
MXFP8: Final = Format(name="mxfp8", bits=8, group=32, scale=1)
FP8: Final = Format(name="fp8", bits=8, scale=4, fixed=4)
FP8_ROWS: Final = Format(name="fp8-channel", bits=8, scale=2, by_row=True)
NAMED: Final[Mapping[str, Format]] = {
    "NVFP4": NVFP4,
    "W4A16_NVFP4": NVFP4,
    "NVFP4_AWQ": NVFP4,
    "MXFP4": MXFP4,
    "W4A8_MXFP4_FP8": MXFP4,
    "MXFP8": MXFP8,
    "FP8": FP8,
    "FP8_PER_CHANNEL_PER_TOKEN": FP8_ROWS,
    "FP8_PB_WO": Format(name="fp8-block", bits=8, block=128, scale=4),
}
"""ModelOpt's names of algorithms."""


def blocks(size: int, scale: int) -> Format:
    """FP8 with a scale for each square block."""
    return Format(name="fp8-block", bits=8, block=size, scale=scale)


def integers(bits: int, group: int, *, zero: bool, order: bool = False) -> Format:
    """Whole numbers with a scale (and zero points) for each group of columns, or for each row when there is none."""
    return Format(
        name=f"int{bits}",
        bits=bits,
        group=group,
        scale=2,
        by_row=not group,
        zero=bits if zero else 0,
        per_column=4 if order else 0,
    )
