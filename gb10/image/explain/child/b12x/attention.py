"""b12x's attention, which vLLM plans without a declaration: b12x's own declaration of the same call becomes a job."""

import dataclasses
from collections.abc import Callable
from typing import Any

from gb10.image.explain.child.b12x.jobs import jobs_of
from gb10.image.explain.child.shared.known_values import known_within

FACTORY = "b12x_planned:compile_planned"
"""``planned.py`` under the name that the image's report has; ``worker.become`` gives it that name."""
BOUND: list[Any] = []
"""The bindings of the calls that run now."""
OF_SCRATCH = ("page_table", "cache_seqlens", "cu_seqlens_q")
"""Tensors that a binding's scratch has."""


def listen() -> None:
    """Run the calls for what they compile. The values that vLLM plans them with are known."""
    import vllm.v1.attention.backends.b12x as backend
    from b12x.attention.paged import _forward, api

    known_within(backend.B12xPagedAttentionImpl, "__init__", "_select_plan")
    _forward._to_kernel_tensor = lambda *_, **__: None  # the keys have the tensors' shapes
    _forward._encode_plane_tma_descriptors = lambda cache, **_: cache.new_empty((cache.shape[2], 16))
    api.run = _noting_binding(api.run)


def _noting_binding(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*, binding: Any, **named: Any) -> Any:
        BOUND.append(binding)
        try:
            return function(binding=binding, **named)
        finally:
            BOUND.pop()

    return call


def job() -> Any:
    """The job of the call that runs now. Raises LookupError when it is no call of b12x's attention."""
    if not BOUND:
        raise LookupError("no function of b12x makes it from numbers and names alone")
    (own,) = jobs_of(_declared(BOUND[-1]))
    return dataclasses.replace(own, factory=FACTORY)


def _declared(binding: Any) -> Any:
    """b12x's declared plan of a call with this binding."""
    from b12x.attention.paged import _preparation
    from b12x.preparation import FrozenMapping

    scratch = binding.scratch
    caps = scratch._owner_scratch_plan.caps
    places = {name: scratch if name in OF_SCRATCH else binding for name in _preparation._OPERANDS}
    tensors = {name: getattr(place, name) for name, place in places.items()}
    if caps.mode != "decode":  # such a plan is for every length up to this one
        for name in ("q", "output"):
            one = tensors[name]
            tensors[name] = one.new_empty_strided((caps.max_total_q, *one.shape[1:]), one.stride())
    invocation = {
        **dict(_preparation.invocation_from_tensors(caps, **tensors)),
        "window_left": int(scratch.plan.window_left),
    }
    return _preparation.plan(caps, invocation=FrozenMapping(invocation))
