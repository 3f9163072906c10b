"""Operators on tensors without memory: compiled ones do nothing, those that the engine writes in Python run."""

import torch
from no_memory import NoMemory

KEPT = []
"""Libraries of operators: an operator ends with its library."""


class Enough(BaseException):
    """Raised inside an operator when its kernel is made: there is nothing to run."""


USED = set()
"""Compiled operators with code that the driver compiles first, of those that were called."""


def compiled_ones(returns, late):
    """What gives a compiled operator an implementation: nothing, an argument by its place, or attention's two results.

    ``returns``: the place of the argument that an operator returns, by name. ``late``: the modules whose calls count.
    """

    def implement(library, schema):
        name = schema.partition("(")[0]
        if library.ns in late:
            library.impl(name, _attention(f"{library.ns}::{name}"), "Meta")
        elif name in returns:
            library.impl(name, lambda *args: args[returns[name]], "Meta")
        elif schema.rstrip().endswith("-> ()"):
            library.impl(name, lambda *_, **__: None, "Meta")

    return implement


def _attention(name):
    def attention(q, k, v, *rest):
        USED.add(name)
        out = rest[0] if rest and rest[0] is not None else torch.empty_like(q)
        return [out, torch.empty((q.shape[-2], q.shape[0]), dtype=torch.float32, device="meta")]

    return attention


def python_ones(engine_utils, own):
    """Let operators that are written in Python run for what they launch; their rules for shapes would skip it.

    ``own``: operators that have an implementation for shapes already.
    """
    take = torch.library.register_fake
    fakes = dict.fromkeys(own)

    def register(op_name, op_func, mutates_args=None, fake_impl=None, target_lib=None, dispatch_key=None, tags=()):
        library = target_lib or engine_utils.vllm_lib
        library.define(op_name + torch.library.infer_schema(op_func, mutates_args=mutates_args or []), tags=tags)
        library.impl(op_name, _run(op_func, lambda: fake_impl), "Meta")
        library.impl(op_name, _run(op_func, lambda: fake_impl), "CPU")

    def custom_op(name, fn=None, /, *, mutates_args=(), device_types=None, schema=None, tags=None, **_):
        def define(function):
            space, operator = name.split("::")
            library = torch.library.Library(space, "FRAGMENT")
            KEPT.append(library)
            library.define(operator + (schema or torch.library.infer_schema(function, mutates_args=mutates_args)))
            library.impl(operator, _run(function, lambda: fakes.get(name)), "Meta")
            fakes[name] = None
            return _callable(name, getattr(getattr(torch.ops, space), operator), fakes)

        return define if fn is None else define(fn)

    def register_fake(op, func=None, /, **named):
        if op not in fakes:
            return take(op, func, **named)
        keep = lambda function: fakes.__setitem__(op, function) or function
        return keep if func is None else keep(func)

    engine_utils.direct_register_custom_op = register
    torch.library.custom_op, torch.library.register_fake = custom_op, register_fake


def _run(function, fake):
    def run(*args, **named):
        try:
            with NoMemory():
                return function(*args, **named)
        except Enough:
            shaped = fake()
            return shaped(*args, **named) if shaped else None

    return run


def _callable(name, operator, fakes):
    def call(*args, **named):
        return operator(*args, **named)

    call.register_fake = lambda function: fakes.__setitem__(name, function) or function
    return call
