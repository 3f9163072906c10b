"""What FlashInfer's kernel generators touch of torch, so that compiling them needs no torch wheel.

Only the names that import and spec generation use; anything else is an AttributeError. Nothing runs on a device:
FLASHINFER_CUDA_ARCH_LIST names the target, so capabilities are never asked.
"""

from dataclasses import dataclass
from types import SimpleNamespace


@dataclass(frozen=True, slots=True, repr=False)
class dtype:
    """A dtype's name and its size in bytes, as torch 2.14 has them."""

    name: str
    itemsize: int

    def __repr__(self) -> str:
        return f"torch.{self.name}"


bool = dtype("bool", 1)
int8, uint8 = dtype("int8", 1), dtype("uint8", 1)
int16, uint16 = dtype("int16", 2), dtype("uint16", 2)
int32, uint32 = dtype("int32", 4), dtype("uint32", 4)
int64, uint64 = dtype("int64", 8), dtype("uint64", 8)
float16, bfloat16 = dtype("float16", 2), dtype("bfloat16", 2)
float32, float64 = dtype("float32", 4), dtype("float64", 8)
float8_e4m3fn, float8_e5m2 = dtype("float8_e4m3fn", 1), dtype("float8_e5m2", 1)
float4_e2m1fn_x2 = dtype("float4_e2m1fn_x2", 1)


class Tensor:
    """Named in annotations only."""


class Size(tuple[int, ...]):
    """Named in annotations only."""


class device:
    """Named in annotations only."""


# torch wheels are built with the new C++ ABI on both machines since 2.6.
_C = SimpleNamespace(_GLIBCXX_USE_CXX11_ABI=True)
