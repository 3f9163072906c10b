"""CuTe DSL kernels that the engine would compile are counted, and not compiled."""

from collections.abc import Callable
from typing import Any

from gb10.image.explain.child.shared.values import Row

COUNTS: dict[str, int] = {}
"""Kernels that ``cute.compile`` itself would compile, and how often."""


class Compiled:
    """A kernel that was not compiled."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Compiled()

    def __call__(self, *_: object, **__: object) -> None:
        return None


class Counting:
    """Stands for ``cute.compile``, and has its options, which are in keys."""

    def __init__(self, given: Any) -> None:
        self._given, self._compile_options = given, given._compile_options

    def __getitem__(self, options: dict[str, Any]) -> Any:
        return Counting(self._given[options])

    def __call__(self, function: Callable[..., Any], *_: object, **__: object) -> Any:
        target = function if hasattr(function, "__qualname__") else type(function)
        name = f"{target.__module__}:{target.__qualname__}"
        COUNTS[name] = COUNTS.get(name, 0) + 1
        return Compiled()


def left() -> list[Row]:
    """A row for each kernel."""
    return [
        {"what": f"CuTe DSL {name}", "why": f"cute.compile keeps no file: {count} at each start"}
        for name, count in sorted(COUNTS.items())
    ]


def listen() -> None:
    """Count compiles of CuTe DSL."""
    from cutlass import cute

    cute.compile = Counting(cute.compile)
