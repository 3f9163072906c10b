"""Which CuTe DSL kernels the engine asks for: they are noted, and not compiled."""

STARTS = {}
"""Kernels that are compiled by ``cute.compile`` itself, and how often: it keeps no file, so each start does so again."""
LEFT = []


class Compiled:
    """A kernel that was not compiled."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Compiled()

    def __call__(self, *_, **__):
        return None


class Counting:
    """Stands for ``cute.compile``."""

    def __getitem__(self, _):
        return self

    def __call__(self, function, *_, **__):
        target = function if hasattr(function, "__qualname__") else type(function)
        name = f"{target.__module__}:{target.__qualname__}"
        STARTS[name] = STARTS.get(name, 0) + 1
        return Compiled()


def listen():
    """Count compiles of CuTe DSL, and take b12x's preparations."""
    import cutlass.cute as cute

    cute.compile = Counting()
    try:
        from b12x.preparation import types
    except ImportError:
        return
    import b12x.preparation.session  # sets the preparer that is replaced

    types._set_lazy_preparer(_prepare)


def _prepare(plan):
    """Note what b12x would compile now."""
    from shape_ops import Enough

    for part in plan.variants.values() if hasattr(plan, "variants") else (plan,):
        row = {"what": f"CuTe DSL b12x {part.component_id}", "why": "b12x compiles it at its first call"}
        if row not in LEFT:
            LEFT.append(row)
    raise Enough
