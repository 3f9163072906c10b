"""The Click that Typer runs on, found by Typer's public names: up to some release the package, since then a copy of it.

``typer.BadParameter`` is one of Click's own usage errors in every release, so its base tells where Click lies.
"""

import importlib
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
]
