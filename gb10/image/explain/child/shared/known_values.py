"""Tensors without memory whose values are known: the engine wrote them, or torch computed them of known values."""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map
from torch.utils.weak import WeakIdKeyDictionary

MOST = 1 << 20
"""Elements of a tensor whose values are kept."""
READS = ("cpu", "item", "tolist", "__int__", "__index__", "__bool__")
"""Methods that bring a value to the host."""
UNWRITTEN = ("empty", "new_empty")
"""How functions begin that make a tensor without values."""


class Known(TorchFunctionMode):
    """Follows the values of small tensors; a tensor whose values are unknown stays without."""

    def __init__(self) -> None:
        super().__init__()
        self._values = WeakIdKeyDictionary()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, name = kwargs or {}, getattr(func, "__name__", "")
        if name in READS and args[0] in self._values:
            return self._on_values(func, args, kwargs)
        found = func(*args, **kwargs)
        target = args[0] if name == "__setitem__" else found
        if isinstance(target, torch.Tensor) and target.is_meta and target.numel() <= MOST:
            self._follow(target, name, func, args, kwargs)
        return found

    def _follow(self, target: Any, name: str, func: Any, args: Any, kwargs: Any) -> None:
        """Make the same call on the values, if all are known; else forget the target's."""
        try:
            if name.startswith(UNWRITTEN):
                raise LookupError(name)
            value = self._on_values(func, args, kwargs)
        except (LookupError, RuntimeError):  # unknown, or no operator of the CPU
            self._values.pop(target, None)
        else:
            if isinstance(value, torch.Tensor):
                self._values[target] = value

    def _on_values(self, func: Any, args: Any, kwargs: Any) -> Any:
        plain, named = tree_map(self._value, (tuple(args), kwargs))
        with torch._C.DisableTorchFunction():
            return func(*plain, **named)

    def _value(self, given: Any) -> Any:
        if isinstance(given, torch.Tensor) and given.is_meta:
            return self._values[given]
        is_gpu = isinstance(given, str | torch.device) and str(given).startswith(("cuda", "meta"))
        return torch.device("cpu") if is_gpu else given


def known_within(owner: Any, *names: Any) -> None:
    """Let these functions of a class or module run in that mode."""
    for name in names:
        setattr(owner, name, _within(getattr(owner, name)))


def _within(function: Callable[..., Any]) -> Any:
    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        with Known():
            return function(*args, **named)

    return call
