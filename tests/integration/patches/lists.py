"""A stand-in for the few tensor calls of the code under test: flat lists with a shape; fresh memory is garbage."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace
from typing import Any


class Tensor:
    """Values in a list, row by row; a part of it by its first axis shares the list."""

    def __init__(self, values: list[Any], shape: tuple[int, ...], dtype: str = "bf16", at: int = 0) -> None:
        self.values, self.shape, self.dtype, self.at, self.device = values, shape, dtype, at, "device"

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values[self.at : self.at + math.prod(self.shape)])

    def __getitem__(self, key: int | slice | list[int]) -> Tensor:
        width = math.prod(self.shape[1:])
        if isinstance(key, list):
            rows = [value for row in key for value in self[row]]
            return Tensor(rows, (len(key), *self.shape[1:]), self.dtype)
        if isinstance(key, slice):
            rows_of = range(self.shape[0])[key]
            return Tensor(self.values, (len(rows_of), *self.shape[1:]), self.dtype, self.at + rows_of.start * width)
        return Tensor(self.values, self.shape[1:], self.dtype, self.at + range(self.shape[0])[key] * width)

    def __lt__(self, other: float) -> Tensor:
        return self._each(lambda value: value < other)

    def __mul__(self, other: Tensor) -> Tensor:
        """Another of the same shape, or one with a last axis of one."""
        wide = self.shape[-1] if other.shape[-1] == 1 else 1
        factors = [value for value in other for _ in range(wide)]
        return Tensor([a * b for a, b in zip(self, factors, strict=True)], self.shape, self.dtype)

    def _each(self, change: Callable[[Any], Any]) -> Tensor:
        return Tensor([change(value) for value in self], self.shape, self.dtype)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def numel(self) -> int:
        return math.prod(self.shape)

    def size(self, axis: int) -> int:
        return self.shape[axis]

    def to(self, _dtype: str) -> Tensor:
        return self

    def view(self, *shape: int) -> Tensor:
        assert math.prod(shape) == self.numel()
        return Tensor(self.values, shape, self.dtype, self.at)

    def flatten(self) -> Tensor:
        return self.view(self.numel())

    def any(self) -> bool:
        return any(self)

    def sum(self, dim: int) -> Tensor:
        """Over the middle one of three axes."""
        assert (dim, self.ndim) == (1, 3)
        rows, inner, columns = self.shape
        found = list(self)
        sums = [
            sum(found[(row * inner + at) * columns + column] for at in range(inner))
            for row in range(rows)
            for column in range(columns)
        ]
        return Tensor(sums, (rows, columns), self.dtype)

    def max(self, dim: int) -> SimpleNamespace:
        """Over the last of two axes."""
        assert (dim % 2, self.ndim) == (1, 2)
        return SimpleNamespace(values=Tensor([max(self[row]) for row in range(self.shape[0])], self.shape[:1]))

    def masked_fill_(self, mask: Tensor | bool, value: float) -> Tensor:
        marks = [mask] * self.numel() if isinstance(mask, bool) else list(mask)
        assert len(marks) == self.numel()
        for index, mark in enumerate(marks):
            if mark:
                self.values[self.at + index] = value
        return self

    def write(self, values: Iterable[Any]) -> None:
        """What a kernel writes, from the start."""
        for index, value in enumerate(values):
            assert index < self.numel()
            self.values[self.at + index] = value


def torch(index_garbage: int) -> SimpleNamespace:
    """Names of torch; integers of fresh memory are ``index_garbage``, other values NaN."""

    def make(fresh: Callable[[str], Any]) -> Callable[..., Tensor]:
        def new(*sizes: int | tuple[int, ...], dtype: str = "bf16", device: str = "device") -> Tensor:
            assert device == "device"
            shape = sum((size if isinstance(size, tuple) else (size,) for size in sizes), ())
            return Tensor([fresh(dtype)] * math.prod(shape), shape, dtype)

        return new

    names = ("int", "int32", "uint8", "half", "float32", "float8_e4m3fn")
    return SimpleNamespace(
        empty=make(lambda dtype: index_garbage if dtype == "int32" else math.nan),
        zeros=make(lambda _: 0),
        bfloat16="bf16",
        **{name: name for name in names},
    )
