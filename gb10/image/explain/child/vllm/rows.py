"""A table of layers: what kind, which shapes, the kernel that vLLM chose, and those that it refused."""

import re
from collections.abc import Iterable
from typing import Any, get_args

from gb10.image.explain.child.shared.values import Row, merged
from gb10.image.explain.child.vllm import recorder

Choice = recorder.Choice


def rows(model: Any, config: Any) -> list[Row]:
    """One row for layers whose names differ by numbers alone and that are equal otherwise."""
    from vllm.config import set_current_vllm_config

    with set_current_vllm_config(config):
        return merged((name, _row(layer)) for name, layer in model.named_modules())


def unfinished() -> list[tuple[str, str | None]]:
    """The kernels tried, and why each was refused, for the layer at which the engine stopped."""
    left = [choice for choice in recorder.CHOICES.values() if choice.tried and None not in choice.tried.values()]
    return sorted(left[-1].tried.items()) if left else []


def _row(layer: Any) -> Row | None:
    from vllm.model_executor.layers.attention_layer_base import AttentionLayerBase
    from vllm.model_executor.layers.linear import LinearBase
    from vllm.model_executor.layers.vocab_parallel_embedding import VocabParallelEmbedding

    choice = recorder.CHOICES.get(id(layer), recorder.Choice())
    if isinstance(layer, AttentionLayerBase):
        return _attention(layer, choice)
    if isinstance(layer, (LinearBase, VocabParallelEmbedding)):
        kind = "linear" if isinstance(layer, LinearBase) else "embedding"
        return _weights(layer, choice, kind)
    if hasattr(layer, "quant_method") and hasattr(layer, "moe_config"):
        return _weights(layer, choice, "experts")
    return _encoder(layer)


def _encoder(layer: Any) -> Row | None:
    """Attention of an encoder of images or sound: it has no cache."""
    from vllm.model_executor.layers.attention import MMEncoderAttention

    if not isinstance(layer, MMEncoderAttention):
        return None
    sizes = ("num_heads", "num_kv_heads", "head_size")
    return {
        "kind": "encoder",
        "class": type(layer).__name__,
        "format": str(layer.dtype)[6:] if hasattr(layer, "dtype") else "",
        "shape": ", ".join(f"{name} {getattr(layer, name)}" for name in sizes if hasattr(layer, name)),
        "chosen": layer.attn_backend.name,
        "refused": {},
        "fits": [],
        "options": {},
    }


def _attention(layer: Any, choice: Choice) -> Row:
    backend = layer.get_attn_backend()
    sizes = ("num_heads", "num_kv_heads", "head_size", "sliding_window", "kv_lora_rank", "kv_cache_dtype")
    shape = {name: getattr(layer, name) for name in sizes if getattr(layer, name, None) is not None}
    mamba = hasattr(layer, "mamba_type")
    if mamba:
        shape = {"state": str([list(one) for one in layer.get_state_shape()])}
    return {
        "kind": "state" if mamba else "attention",
        "class": type(layer).__name__,
        "format": str(getattr(layer, "kv_cache_dtype", "")),
        "shape": ", ".join(f"{name} {value}" for name, value in shape.items() if name != "kv_cache_dtype"),
        "chosen": backend.get_name(),
        **_others(choice, backend.get_name()),
        "options": {name: name for name, reason in choice.tried.items() if reason is None},
    }


def _weights(layer: Any, choice: Choice, kind: str) -> Row:
    method = layer.quant_method
    scheme = getattr(layer, "scheme", None)
    chosen = choice.accepted.__name__ if choice.accepted else None
    held = held_kernel(layer)
    choice.accepted = None  # what follows asks the rest of the list
    options = _experts_options(choice) if choice.oracle else _linear_options(choice)
    return {
        "kind": kind,
        "class": type(layer).__name__,
        "format": type(scheme or method).__name__,
        "shape": _shapes(layer),
        "chosen": chosen or held,
        "held": held,
        **_others(choice, chosen),
        "options": options,
    }


def held_kernel(layer: Any) -> str | None:
    """The kernel object that the built layer keeps, by its class's name; None if it keeps none."""
    for holder in (getattr(layer, "scheme", None), layer.quant_method):
        for name in ("kernel", "fp8_linear", "linear_kernel", "experts_cls"):
            kept = getattr(holder, name, None)
            if kept is not None:
                return kept.__name__ if isinstance(kept, type) else type(kept).__name__
        gemm = getattr(holder, "_gemm_impl", None)
        if gemm is not None:
            return str(getattr(gemm, "__name__", None) or gemm.func.__name__)
    return None


def _shapes(layer: Any) -> str:
    weights = [(name, weight) for name, weight in layer.named_parameters(recurse=False) if weight.dim() >= 2]
    return ", ".join(f"{name} {'x'.join(map(str, weight.shape))} {str(weight.dtype)[6:]}" for name, weight in weights)


def _others(choice: Choice, chosen: str | None) -> Row:
    refused = {name: reason for name, reason in choice.tried.items() if reason is not None}
    fits = [name for name, reason in choice.tried.items() if reason is None and name != chosen]
    return {"refused": refused, "fits": fits}


def _linear_options(choice: Choice) -> dict[str, str]:
    """The values of --linear-backend that have a kernel here; asks what the engine did not have to ask."""
    from vllm.model_executor.kernels.linear import _LINEAR_BACKEND_KERNEL_MAP as BACKENDS

    for kernel in choice.listed:
        if kernel.__name__ not in choice.tried:
            _ask(kernel, choice)
    able = {kernel for kernel in choice.listed if choice.tried.get(kernel.__name__, "") is None}
    ordered = [kernel for kernel in choice.listed if kernel in able]
    found = {name: [kernel for kernel in ordered if kernel in kernels] for name, kernels in BACKENDS.items()}
    return {name: kernels[0].__name__ for name, kernels in found.items() if kernels}


def _ask(kernel: Any, choice: Choice) -> None:
    try:
        if hasattr(kernel, "get_min_capability") and kernel.get_min_capability() > recorder.CAPABILITY:
            return
        if not hasattr(kernel, "is_supported") or kernel.is_supported()[0]:
            choice.tried[kernel.__name__] = _reason(kernel.can_implement(*choice.asked))
        else:
            choice.tried.setdefault(kernel.__name__, "not supported")
    except Exception as error:
        choice.tried[kernel.__name__] = f"unknown: {type(error).__name__}: {error}"


def _reason(answer: tuple[bool, object]) -> str | None:
    fine, reason = answer
    return None if fine else str(reason)


def _experts_options(choice: Choice) -> dict[str, str]:
    """The values of --moe-backend that have a kernel here, by the map of the module that chose the experts."""
    from vllm.config.kernel import MoEBackend

    mappings = [value for name, value in vars(choice.oracle).items() if re.fullmatch("map_.*_backend", name)]
    found = {}
    for name in get_args(MoEBackend) if mappings else ():
        try:
            backends = mappings[0](name)
        except (ValueError, KeyError):
            continue
        kernel = _first(choice, backends if isinstance(backends, list) else [backends])
        if kernel:
            found[name] = kernel
    return found


def _first(choice: Choice, backends: Iterable[Any]) -> str | None:
    for backend in backends:
        try:
            kernels = choice.oracle.backend_to_kernel_cls(backend)
        except Exception as error:
            choice.tried[str(backend.value)] = f"unknown: {type(error).__name__}: {error}"
            continue
        for kernel in kernels:
            try:
                choice.tried[kernel.__name__] = _reason(kernel.is_supported_config(kernel, *choice.asked))
            except Exception as error:
                choice.tried[kernel.__name__] = f"unknown: {type(error).__name__}: {error}"
            if choice.tried[kernel.__name__] is None:
                return str(kernel.__name__)
    return None
