"""Which CuTe DSL kernels the engine asks for: they are noted, and not compiled."""

STARTS = {}
"""Kernels that are compiled by ``cute.compile`` itself, and how often."""


class Compiled:
    """A kernel that was not compiled."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Compiled()

    def __call__(self, *_, **__):
        return None


class Counting:
    """Stands for ``cute.compile``, which it has the options of: they are in keys."""

    def __init__(self, given):
        self._given, self._compile_options = given, given._compile_options

    def __getitem__(self, options):
        return Counting(self._given[options])

    def __call__(self, function, *_, **__):
        target = function if hasattr(function, "__qualname__") else type(function)
        name = f"{target.__module__}:{target.__qualname__}"
        STARTS[name] = STARTS.get(name, 0) + 1
        return Compiled()


def left():
    """A row for each kernel."""
    return [
        {"what": f"CuTe DSL {name}", "why": f"cute.compile keeps no file: {count} at each start"}
        for name, count in sorted(STARTS.items())
    ]


def listen():
    """Count compiles of CuTe DSL."""
    import cutlass.cute as cute

    cute.compile = Counting(cute.compile)
