"""Turns Typer's usage errors into ours: what is wrong, the closest option, where the help is."""

import re

from typer._click.core import Context
from typer._click.exceptions import ClickException, MissingParameter, NoSuchOption
from typer._click.exceptions import UsageError as TyperUsageError
from typer.core import TyperArgument, TyperOption

from gb10.errors import UsageError
from gb10.host.started import CHECKOUT

EXTRA = re.compile(r"Got unexpected extra argument\S* \((.*)\)", re.DOTALL)


def usage_error(error: ClickException) -> UsageError:
    """Our error for one of Typer's."""
    context = error.ctx if isinstance(error, TyperUsageError) else None
    path = " ".join((CHECKOUT, *(context.command_path.split()[1:] if context else ())))
    listing = f"{path} --help lists the options"
    if isinstance(error, NoSuchOption):
        guess = " or ".join(error.possibilities or ())
        close = f"did you mean {guess}? " if guess else ""
        return UsageError(f"no option {error.option_name}", hint=f"{close}{listing}")
    if isinstance(error, MissingParameter) and context:
        return UsageError(f"{_name(error.param)} is missing", hint=f"{path} --help shows an example")
    extra = EXTRA.fullmatch(error.format_message())
    if extra and context:
        return UsageError(f"unexpected argument: {extra[1]}", hint=_without_argument(context, extra[1], path))
    return UsageError(error.format_message().rstrip("."), hint=listing)


def _name(param: object) -> str:
    if isinstance(param, TyperArgument):
        return f"the argument {param.metavar or param.name}"
    return f"the option {param.opts[0]}" if isinstance(param, TyperOption) else "an option"


def _without_argument(context: Context, extra: str, path: str) -> str:
    options = {option for param in context.command.params for option in param.opts}
    if "--engine" in options and " " not in extra:
        return f"an engine is named by its option: {path} --engine {extra}"
    return f"{path} --help shows an example"
