"""Operators on tensors without memory: compiled ones do nothing, those written in Python run for what they launch."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import torch

from gb10.image.explain.child.shared.meta_tensors import NoMemory

KEPT: list[Any] = []
"""Libraries of operators: an operator ends with its library."""


class Enough(BaseException):
    """Raised inside an operator when its kernel is made: there is nothing to run."""


USED: set[str] = set()
"""Compiled operators with code that the driver compiles first, of those that were called."""


def compiled_operators(returns: Mapping[str, int], late: Collection[str]) -> Callable[[Any, str], None]:
    """A function that implements a compiled operator: it returns nothing, an argument, or attention's two results.

    ``returns``: the place of the argument that an operator returns, by name. ``late``: the modules whose calls count.
    """

    def implement(library: Any, schema: str) -> None:
        name = schema.partition("(")[0]
        if library.ns in late:
            library.impl(name, _attention(f"{library.ns}::{name}"), "Meta")
        elif name in returns:
            library.impl(name, lambda *args: args[returns[name]], "Meta")
        elif schema.rstrip().endswith("-> ()"):
            library.impl(name, lambda *_, **__: None, "Meta")

    return implement


def _attention(name: str) -> Any:
    def attention(q: Any, k: Any, v: Any, *rest: Any) -> Any:
        USED.add(name)
        out = rest[0] if rest and rest[0] is not None else torch.empty_like(q)
        return [out, torch.empty((q.shape[-2], q.shape[0]), dtype=torch.float32, device="meta")]

    return attention


def run_python_operators(engine_utils: Any, own: Iterable[str]) -> None:
    """Let operators written in Python run for what they launch, which their rules for shapes would skip.

    ``own``: operators that have an implementation for shapes already.
    """
    take = torch.library.register_fake
    fakes = dict.fromkeys(own)

    def register(  # noqa: PLR0917 - vLLM's own signature
        op_name: Any,
        op_func: Any,
        mutates_args: Any = None,
        fake_impl: Any = None,
        target_lib: Any = None,
        dispatch_key: Any = None,
        tags: Any = (),
    ) -> None:
        library = target_lib or engine_utils.vllm_lib
        library.define(op_name + torch.library.infer_schema(op_func, mutates_args=mutates_args or []), tags=tags)
        library.impl(op_name, _run(op_func, lambda: fake_impl), "Meta")
        library.impl(op_name, _run(op_func, lambda: fake_impl), "CPU")

    def custom_op(
        name: str,
        fn: Any = None,
        /,
        *,
        mutates_args: Any = (),
        device_types: Any = None,
        schema: str | None = None,
        tags: Any = None,
        **_: object,
    ) -> Any:
        def define(function: Callable[..., Any]) -> Any:
            space, operator = name.split("::")
            library = torch.library.Library(space, "FRAGMENT")
            KEPT.append(library)
            library.define(operator + (schema or torch.library.infer_schema(function, mutates_args=mutates_args)))
            library.impl(operator, _run(function, lambda: fakes.get(name)), "Meta")
            fakes[name] = None
            return _callable(name, getattr(getattr(torch.ops, space), operator), fakes)

        return define if fn is None else define(fn)

    def register_fake(op: Any, func: Any = None, /, **named: Any) -> Any:
        if op not in fakes:
            return take(op, func, **named)

        def keep(function: Callable[..., Any]) -> Callable[..., Any]:
            fakes[op] = function
            return function

        return keep if func is None else keep(func)

    engine_utils.direct_register_custom_op = register
    torch.library.custom_op, torch.library.register_fake = custom_op, register_fake


def _run(function: Callable[..., Any], fake: Any) -> Any:
    def run(*args: Any, **named: Any) -> Any:
        try:
            with NoMemory():
                return function(*args, **named)
        except Enough:
            shaped = fake()
            return shaped(*args, **named) if shaped else None

    return run


def _callable(name: str, operator: Any, fakes: Any) -> Any:
    def call(*args: Any, **named: Any) -> Any:
        return operator(*args, **named)

    def register_fake(function: Callable[..., Any]) -> Callable[..., Any]:
        fakes[name] = function
        return function

    call.register_fake = register_fake  # type: ignore[attr-defined] # as torch's own has it
    return call
