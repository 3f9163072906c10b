"""Notes which kernels would be launched: Triton's, FlashInfer's, the engine's own, and products of torch."""

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from gb10.image.explain.child.shared.triton_cache import Launched, NoLaunch

CALLS: list[str] = []
"""In the order of the calls, without repeats."""
PRODUCTS = ("mm", "linear", "matmul", "conv")
"""Words in the names of torch's operators that multiply."""
SPACES: set[str] = set()
"""Namespaces of compiled operators."""


class Reached(BaseException):
    """A compiled kernel would run here: what it returns is unknown."""


def note(name: str) -> None:
    """One kernel."""
    if name not in CALLS:
        CALLS.append(name)


class Noted:
    """A compiled module that is not there: its functions note that they were called, and return nothing."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, function: str) -> Callable[..., None]:
        if function.startswith("__"):
            raise AttributeError(function)
        return lambda *_, **__: note(self.name)


class Products(TorchDispatchMode):
    """Notes torch's products, and compiled operators: an engine may give one a rule for shapes of its own."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        space, _, name = str(func).partition(".")
        if space == "aten" and any(word in name for word in PRODUCTS):
            note(f"torch {name.partition('.')[0]}")
        elif space in SPACES:
            note(f"{space} {name.partition('.')[0]}")
        return func(*args, **(kwargs or {}))


def implement_noting(library: Any, schema: str) -> None:
    """Implement a compiled operator by noting it; one that returns tensors ends the trace."""
    name = f"{library.ns} {schema.partition('(')[0]}"
    SPACES.add(library.ns)
    returns = not schema.rstrip().endswith("-> ()")

    def called(*_: object, **__: object) -> None:
        note(name)
        if returns:
            raise Reached(name)

    library.impl(schema.partition("(")[0], called, "Meta")


def run_or_note(
    function: Callable[..., Any], registered: Callable[..., Any], always: bool = False
) -> Callable[..., Any]:
    """An operator written in Python runs for what it calls; where it cannot, its rule for shapes runs.

    It is noted then, if it had called nothing, or ``always``.
    """

    def call(*args: Any, **named: Any) -> Any:
        before = len(CALLS)
        try:
            return function(*args, **named)
        except (Exception, Reached):
            if always or len(CALLS) == before:
                note(f"operator {function.__name__}")
            return registered(*args, **named)

    return call


def listen_to_triton(capability: tuple[int, int]) -> None:
    """Launches are noted; nothing is compiled. The driver answers for the device."""
    from triton.backends.compiler import GPUTarget
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.driver import driver
    from triton.runtime.jit import JITFunction

    def run(self: Any, *_: object, **__: object) -> Any:
        note(f"Triton {self.fn.__qualname__}")
        return Launched()

    driver.set_active(NoLaunch(GPUTarget("cuda", capability, 32)))
    JITFunction.run = run
    Autotuner._bench = lambda *_, **__: [1.0, 1.0, 1.0]


def listen_to_flashinfer() -> None:
    """A module of FlashInfer is noted when a function of it is called."""
    from flashinfer.jit.core import JitSpec

    JitSpec.build_and_load = lambda self, *_, **__: Noted(f"FlashInfer {self.name}")


def traced(function: Callable[..., Any], *args: Any) -> tuple[list[str], str | None]:
    """The kernels that a call would launch, in order; and why the rest is unknown, if it is."""
    CALLS.clear()
    try:
        with Products():
            function(*args)
    except Reached:
        return list(CALLS), None
    except Exception as error:
        return list(CALLS), f"{type(error).__name__}: {str(error).strip()[:300]}"
    return list(CALLS), None


def shaped(rows: int, columns: int, kind: Any) -> Any:
    """A tensor of a shape, without memory."""
    return torch.empty((rows, columns), dtype=kind, device="meta")
