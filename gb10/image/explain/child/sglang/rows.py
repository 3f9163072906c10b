"""A table of SGLang's layers: kind, format, shapes, and the kernel that its code calls for tensors without memory."""

from typing import Any

from gb10.image.explain.child.shared.engine_errors import raising_package
from gb10.image.explain.child.shared.kernel_calls import Reached, shaped, traced
from gb10.image.explain.child.shared.values import Row, merged

TOKENS = 64
"""Rows of the matrix that a linear layer gets."""
Traces = dict[tuple[str, str, str], tuple[list[str], str | None] | None]
"""By class, format and shapes of a layer: the kernels called, and why the rest is unknown; None for experts."""


def rows(model: Any, config: Any, attention: Row) -> list[Row]:
    """One row for layers whose names differ by numbers alone and that are equal otherwise."""
    traces: Traces = {}
    return merged((name, _row(layer, config, attention, traces)) for name, layer in model.named_modules())


def _row(layer: Any, config: Any, attention: Row, traces: Traces) -> Row | None:
    from sglang.srt.layers.linear import LinearBase
    from sglang.srt.layers.moe.fused_moe_triton.layer import FusedMoE
    from sglang.srt.layers.radix_attention import RadixAttention
    from sglang.srt.layers.vocab_parallel_embedding import VocabParallelEmbedding

    if isinstance(layer, RadixAttention):
        return _attention(layer, attention)
    if isinstance(layer, FusedMoE):
        return _experts(layer, traces)
    if isinstance(layer, LinearBase):
        return _linear(layer, config, traces)
    if isinstance(layer, VocabParallelEmbedding):
        return {**_weights(layer, "embedding"), "chosen": None, "refused": {}}
    if attention["state"] and _is_state(layer):
        sizes = ("num_heads", "head_dim", "ssm_state_size", "conv_kernel_size")
        shape = {name: getattr(layer, name, None) for name in sizes}
        return _plain(layer, "state", shape, attention["state"], str(config.dtype)[6:])
    return None


def _is_state(layer: Any) -> bool:
    """A layer with a state in place of keys and values: a mixer of Mamba, or linear attention."""
    from sglang.srt.layers.attention.mamba.mamba import MambaMixer2
    from sglang.srt.layers.radix_linear_attention import RadixLinearAttention

    return isinstance(layer, MambaMixer2 | RadixLinearAttention)


def _attention(layer: Any, attention: Row) -> Row:
    sizes = ("tp_q_head_num", "tp_k_head_num", "qk_head_dim", "v_head_dim", "sliding_window_size")
    shape = {name.removeprefix("tp_"): getattr(layer, name) for name in sizes if getattr(layer, name) not in (None, -1)}
    return _plain(layer, "attention", shape, attention["name"], attention["format"])


def _plain(layer: Any, kind: str, shape: Row, chosen: str | None, form: str) -> Row:
    return {
        "kind": kind,
        "class": type(layer).__name__,
        "format": form,
        "shape": ", ".join(f"{name} {value}" for name, value in shape.items() if value is not None),
        "chosen": chosen,
        "refused": {},
        "fits": [],
        "options": {},
    }


def _weights(layer: Any, kind: str) -> Row:
    method = getattr(layer, "quant_method", None)
    weights = [(name, weight) for name, weight in layer.named_parameters(recurse=False) if weight.dim() >= 2]
    shape = ", ".join(f"{name} {'x'.join(map(str, weight.shape))} {str(weight.dtype)[6:]}" for name, weight in weights)
    form = type(getattr(layer, "scheme", None) or method).__name__
    row = _plain(layer, kind, {}, None, form)
    return {**row, "shape": shape}


def _experts(layer: Any, traces: Traces) -> Row:
    """The runner that SGLang's format made for the experts; where it made none, the configured one if it has a name.

    SGLang may refuse a format when it makes the weights ready.
    """
    from sglang.srt.layers.moe.utils import get_moe_runner_backend

    row = _weights(layer, "experts")
    _once_ready(layer, (row["class"], row["format"], row["shape"]), traces)
    method = layer.quant_method
    runner = getattr(method, "runner", None) or getattr(getattr(layer, "scheme", None), "runner", None)
    backend = runner.runner_backend if runner is not None else get_moe_runner_backend()
    return {**row, "chosen": f"experts {backend.value}" if backend.value != "auto" else None}


def _once_ready(layer: Any, key: tuple[str, str, str], traces: Traces) -> None:
    """SGLang makes the weights of one such layer ready. Raises what SGLang itself raises; values are not there."""
    if key in traces:
        return
    traces[key] = None
    try:
        layer.quant_method.process_weights_after_loading(layer)
    except Reached:
        return
    except Exception as error:
        if raising_package(error) == "sglang":
            raise


def _linear(layer: Any, config: Any, traces: Traces) -> Row:
    """The last kernel that the layer's own method calls is the product; what comes before it makes its input."""
    row = {**_weights(layer, "linear"), "held": _held(layer.quant_method)}
    key = (row["class"], row["format"], row["shape"])
    if key not in traces:
        traces[key] = _traced(layer, config)
    calls, unknown = traces[key] or ([], None)
    if unknown is not None:
        return {**row, "refused": {"kernel": f"unknown: {unknown}"}}
    return {**row, "chosen": calls[-1] if calls else None, "before": calls[:-1]}


def _held(method: Any) -> str | None:
    """The function that the built layer's method keeps, where it keeps one."""
    kept = getattr(method, "w8a8_block_fp8_linear", None) if getattr(method, "block_quant", False) else None
    return getattr(kept, "__name__", None)


def _traced(layer: Any, config: Any) -> tuple[list[str], str | None]:
    """Weights are made ready and one batch goes through, by SGLang's own code."""
    method = layer.quant_method
    calls, unknown = traced(method.process_weights_after_loading, layer)
    if unknown is not None:
        return calls, unknown
    width = getattr(layer, "input_size_per_partition", layer.input_size)
    return traced(method.apply, layer, shaped(TOKENS, width, config.dtype), None)
