"""Tensors of the GPU are torch's meta tensors: a shape without memory. They name the GPU, and read as zero."""

from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

GPU = torch.device("cuda", 0)
MOST = 1 << 26
"""Elements of a tensor that is stood in for by zeros: an operator that has no rule for shapes alone reads values."""
NO_RULE = ("meta tensor", "register_meta")
"""What torch says of an operator whose result depends on values."""
READS = ("item", "tolist", "numpy", "__bool__", "__int__", "__float__", "__index__")
"""Methods that bring a value of the GPU to the host."""
ZEROED: dict[str, int] = {}
"""Operators that were given zeros, and how often."""


class NoMemory(TorchFunctionMode):
    """Every call that names the GPU gets torch's meta device instead."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func is torch.device:
            return func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        asked = getattr(getattr(func, "__self__", None), "__name__", "") if name == "__get__" else ""
        if asked in ("device", "is_cuda"):
            return _place(func(*args, **kwargs), asked, args[0])
        if _is_gpu(kwargs.get("device")):
            kwargs["device"] = "meta"
        kwargs.pop("pin_memory", None)
        args = tuple("meta" if _is_gpu(one) else one for one in args)
        own = getattr(self, f"_{name}", None) if args and isinstance(args[0], torch.Tensor) else None
        if own is not None:
            return own(func, *args, **kwargs)
        if name in READS and args and _absent(args[0]):
            return func(_zeros(args[0]), *args[1:], **kwargs)
        return _with_values(func, args, kwargs)

    def _pin_memory(self, func: Any, tensor: Any, *_: object, **__: object) -> Any:
        return tensor

    def _cuda(self, func: Any, tensor: Any, *_: object, **__: object) -> Any:
        return tensor.to("meta")

    def _cpu(self, func: Any, tensor: Any, *_: object, **__: object) -> Any:
        return _zeros(tensor) if tensor.is_meta else tensor

    def _to(self, func: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
        places = [*(one for one in args if isinstance(one, str | torch.device)), kwargs.get("device")]
        there = tensor.is_meta and any(place is not None and "cpu" in str(place) for place in places)
        return func(_zeros(tensor) if there else tensor, *args, **kwargs)

    def _copy_(self, func: Any, tensor: Any, source: str, *args: Any, **kwargs: Any) -> Any:
        if _absent(source) and not tensor.is_meta:
            return tensor.zero_()
        return func(tensor, source, *args, **kwargs)


def _is_gpu(place: Any) -> bool:
    return place is not None and isinstance(place, str | torch.device) and str(place).startswith("cuda")


def _absent(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_meta


def _place(found: Any, asked: str, tensor: Any) -> Any:
    there = found.type == "meta" if asked == "device" else tensor.is_meta
    return (GPU if asked == "device" else True) if there else found


def _zeros(tensor: Any) -> Any:
    if tensor.numel() > MOST:
        raise RuntimeError(f"a value of {tensor.numel()} elements is read on the host, where it is unknown")
    return torch.zeros(tensor.shape, dtype=tensor.dtype)


def _with_values(func: Any, args: Any, kwargs: Any) -> Any:
    """Call; when the operator cannot work on shapes alone, once more with zeros."""
    try:
        return func(*args, **kwargs)
    except (NotImplementedError, RuntimeError) as error:
        if not any(word in str(error).lower() for word in NO_RULE) or not _of_torch(func):
            raise
    name = getattr(func, "__name__", str(func))
    ZEROED[name] = ZEROED.get(name, 0) + 1
    plain = tree_map(lambda one: _zeros(one) if _absent(one) else one, tuple(map(_bare, args)))
    named = tree_map(lambda one: _zeros(one) if _absent(one) else one, kwargs)
    return tree_map(lambda one: one.to("meta") if isinstance(one, torch.Tensor) else one, func(*plain, **named))


def _bare(value: Any) -> Any:
    """A parameter class of the engine has rules of its own."""
    return value.data if isinstance(value, torch.Tensor) else value


def _of_torch(func: Any) -> bool:
    """Whether the operator is torch's: an operator of the engine without a rule is unknown."""
    return not isinstance(func, torch._ops.OpOverload | torch._ops.OpOverloadPacket) or "aten" in str(func)
