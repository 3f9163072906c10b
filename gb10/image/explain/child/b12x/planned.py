"""The kernels of a call of b12x's attention whose plan nobody declared, as a job for b12x's compilers.

b12x's own job compiles the same kernels, under the name of a declared plan: the tensors of that plan lie in memory, and
those of the other one have a shape alone. This file stands alone: a test runs it in an image, beside b12x.
"""

from typing import Any


def compile_planned(*declared: Any) -> Any:
    """Run b12x's own job on bindings with a plan of the other kind. ``declared``: the arguments of that job."""
    from b12x.attention.paged import _preparation

    own = _preparation.make_compile_bindings
    _preparation.make_compile_bindings = lambda *given: {key: _shaped(one) for key, one in own(*given).items()}
    try:
        return _preparation.compile_paged(*declared)
    finally:
        _preparation.make_compile_bindings = own


def _shaped(binding: Any) -> Any:
    """The binding with tensors of a shape alone, as b12x makes them for such a plan: every stride is zero."""
    with binding.q.fake_mode:
        for name in ("_plan_q", "_plan_output"):
            tensor = getattr(binding.scratch, name)
            object.__setattr__(binding.scratch, name, tensor.as_strided(tensor.shape, (0,) * tensor.ndim))
    return binding
