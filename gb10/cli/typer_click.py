"""The Click that Typer runs on, found by Typer's public names: up to some release the package, since then a copy of it.

``typer.BadParameter`` is one of Click's own usage errors in every release, so its base tells where Click lies.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import typer

if TYPE_CHECKING:  # the copy's types; at run time nothing here names it
    from typer._click.core import Command, Context
    from typer._click.exceptions import ClickException, MissingParameter, NoArgsIsHelpError, NoSuchOption, UsageError
    from typer._click.formatting import HelpFormatter
    from typer._click.globals import get_current_context
    from typer._click.shell_completion import CompletionItem
else:
    USAGE_ERROR: Final = typer.BadParameter.__mro__[1]
    EXCEPTIONS: Final[Any] = importlib.import_module(USAGE_ERROR.__module__)
    CLICK: Final = USAGE_ERROR.__module__.removesuffix(".exceptions")
    CORE: Final[Any] = importlib.import_module(f"{CLICK}.core")
    ClickException, UsageError = EXCEPTIONS.ClickException, USAGE_ERROR
    MissingParameter, NoSuchOption = EXCEPTIONS.MissingParameter, EXCEPTIONS.NoSuchOption
    NoArgsIsHelpError = EXCEPTIONS.NoArgsIsHelpError
    Command, Context = CORE.Command, CORE.Context
    HelpFormatter = importlib.import_module(f"{CLICK}.formatting").HelpFormatter
    get_current_context = importlib.import_module(f"{CLICK}.globals").get_current_context
    CompletionItem = importlib.import_module(f"{CLICK}.shell_completion").CompletionItem

__all__ = [
    "ClickException",
    "Command",
    "CompletionItem",
    "Context",
    "HelpFormatter",
    "MissingParameter",
    "NoArgsIsHelpError",
    "NoSuchOption",
    "UsageError",
    "get_current_context",
    "lazily_checked",
]


def lazily_checked(command: "Command") -> "Command":
    """The command; values that stay what they are load no pydantic, by which Typer checks them since 0.27.

    That takes a tenth of a second. Releases that check otherwise are left as they are.
    """
    own_help = command.get_help_option
    command.get_help_option = lambda ctx: _lazily(own_help(ctx))  # type: ignore[method-assign]
    for parameter in command.params:
        _lazily(parameter)
    return command


def _lazily(parameter: Any) -> Any:  # noqa: ANN401 - a parameter of either Click, or None
    usual = getattr(parameter, "get_runtime_param", None)
    if usual is not None and not isinstance(usual, LazyCheck):
        parameter.get_runtime_param = LazyCheck(usual)
    return parameter


@dataclass(frozen=True, slots=True)
class LazyCheck:
    """Typer's check of one parameter, made when a value needs it."""

    make: Callable[[], Any]

    def __call__(self) -> "LazyCheck":
        """As Typer gets its own."""
        return self

    def coerce(self, value: Any, param: Any, ctx: "Context") -> Any:  # noqa: ANN401 - Typer's own signature
        """The value of a parameter; raises Typer's BadParameter."""
        if value is None and param.nargs == 1:
            return () if param.multiple else None
        kind = param.type_descriptor
        plain = kind.annotation in (str, int) and not kind.is_ranged and kind.parameter_info.parser is None
        return value if plain and type(value) is kind.annotation else self.make().coerce(value, param=param, ctx=ctx)
