"""Tensors that have a shape and no memory, and the few names of torch that launch code asks for."""

from collections.abc import Sequence
from math import prod
from types import SimpleNamespace
from typing import Any


class dtype:
    """A type of numbers: it is written as torch writes its own."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return f"torch.{self.name}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, dtype) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)


NAMES = {
    name: dtype(name)
    for name in (
        *("bfloat16", "float16", "float32", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "float8_e4m3fnuz"),
        *("int8", "uint8", "int32", "int64", "bool"),
    )
}
NAMES |= {"float": NAMES["float32"], "int": NAMES["int32"], "half": NAMES["float16"]}


class Tensor:
    """A contiguous tensor."""

    def __init__(self, shape: Sequence[int], kind: str) -> None:
        self.shape = tuple(shape)
        self.dtype = NAMES[kind]
        self.ndim = len(self.shape)
        self.device = SimpleNamespace(type="cuda", index=0)

    def stride(self, dim: int | None = None) -> Any:
        """Elements from one index to the next."""
        strides = tuple(prod(self.shape[at + 1 :]) for at in range(self.ndim))
        return strides if dim is None else strides[dim]

    def size(self, dim: int | None = None) -> Any:
        """The shape, or one side of it."""
        return self.shape if dim is None else self.shape[dim]

    def numel(self) -> int:
        """How many elements."""
        return prod(self.shape)

    def is_contiguous(self) -> bool:
        """Always."""
        return True

    def new_empty(self, shape: Sequence[int], dtype: dtype | None = None) -> "Tensor":
        """A tensor of another shape."""
        return Tensor(shape, (dtype or self.dtype).name)

    def data_ptr(self) -> int:
        """Aligned, as PyTorch's allocator does."""
        return 0
