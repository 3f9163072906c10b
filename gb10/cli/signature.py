"""Options that many verbs share, added to a verb's signature by a decorator."""

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, TypeVar

T = TypeVar("T")


def inject(name: str, make: Callable[..., object], *, first: bool) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Add the options of ``make`` before or after a verb's own; the verb gets its result as the parameter ``name``."""
    added = signature(make).parameters

    def decorate(verb: Callable[..., T]) -> Callable[..., T]:
        @wraps(verb)
        def run(**given: Any) -> T:  # noqa: ANN401 - the values of a command line
            made = make(**{option: given.pop(option) for option in added})
            return verb(**{name: made}, **given)

        own = [parameter for parameter in signature(verb).parameters.values() if parameter.name != name]
        _sign(run, [*added.values(), *own] if first else [*own, *added.values()])
        return run

    return decorate


def _sign(run: Callable[..., object], parameters: list[Parameter]) -> None:
    """Set what Typer reads of a function."""
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
