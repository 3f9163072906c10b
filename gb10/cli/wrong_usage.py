"""Turns Typer's usage errors into ours: what is wrong, the closest option, where the help is."""

import difflib
import re
from collections.abc import Iterator

from typer.core import TyperArgument, TyperGroup, TyperOption

from gb10.cli.typer_click import ClickException, Command, Context, MissingParameter, NoSuchOption
from gb10.cli.typer_click import UsageError as TyperUsageError
from gb10.core.installation import CHECKOUT
from gb10.errors import UsageError

VERB = re.compile(r"No such command '(.*?)'.*", re.DOTALL)
USUAL = {"start": "up", "stop": "down", "clean": "gc", "prune": "gc", "list": "ls"}
"""What other programs call our verbs of groups."""
MOST = 4
"""Verbs that a hint names."""
ARCH = re.compile(r"\d+\.\d+[af]?")
EXTRA = re.compile(r"Got unexpected extra argument\S* \((.*)\)", re.DOTALL)


def usage_error(error: ClickException) -> UsageError:
    """Our error for one of Typer's."""
    context = error.ctx if isinstance(error, TyperUsageError) else None
    typed = context.command_path.removeprefix(context.find_root().command_path) if context else ""
    path = f"{CHECKOUT}{typed}"  # the program's own name may be several words
    listing = f"{path} --help lists the options"
    if isinstance(error, NoSuchOption) and context:
        return UsageError(f"no option {error.option_name}", hint=f"{_close(context, error.option_name)}{listing}")
    wrong = VERB.fullmatch(error.format_message())
    if wrong and context:
        names = context.command.list_commands(context) if isinstance(context.command, TyperGroup) else []
        return UsageError(f"{path} has no verb {wrong[1]!r}", hint=_verb(wrong[1], names, path))
    if isinstance(error, MissingParameter) and context:
        return UsageError(f"{_name(error.param)} is missing", hint=f"{path} --help shows an example")
    extra = EXTRA.fullmatch(error.format_message())
    if extra and context:
        return UsageError(f"unexpected argument: {extra[1]}", hint=_without_argument(context, extra[1], path))
    return UsageError(error.format_message().rstrip("."), hint=listing)


def _verb(typed: str, verbs: list[str], path: str) -> str:
    close = [USUAL[typed]] if USUAL.get(typed) in verbs else difflib.get_close_matches(typed, verbs, n=1, cutoff=0.7)
    return f"did you mean {close[0]!r}?" if close else f"{path} --help lists the verbs"


def _close(context: Context, option: str) -> str:
    """The verbs that have an option which this one lacks, else its option that is spelled almost the same."""
    verbs = [name for name, command in _verbs(context.find_root()) if option in _options(command)]
    if verbs:
        more = " and others" if len(verbs) > MOST else ""
        return f"{option} is an option of {', '.join(verbs[:MOST]) if more else ' and '.join(verbs)}{more}; "
    close = difflib.get_close_matches(option, _options(context.command), n=1, cutoff=0.8)
    return f"did you mean {close[0]}? " if close else ""


def _verbs(root: Context) -> Iterator[tuple[str, Command]]:
    """Every verb and verb of a group, by the words that a user types."""
    group = root.command
    if not isinstance(group, TyperGroup):
        return
    for name in group.list_commands(root):
        command = group.get_command(root, name)
        if command:
            yield name, command
        for inner, found in getattr(command, "commands", {}).items():
            yield f"{name} {inner}", found


def _options(command: Command) -> list[str]:
    return [option for param in command.params if isinstance(param, TyperOption) for option in param.opts]


def _name(param: object) -> str:
    if isinstance(param, TyperArgument):
        return f"the argument {param.metavar or param.name}"
    return f"the option {param.opts[0]}" if isinstance(param, TyperOption) else "an option"


def _without_argument(context: Context, extra: str, path: str) -> str:
    if "--arch" in _options(context.command) and ARCH.fullmatch(extra):
        return f"an arch is named by its option: --arch {extra}"
    if "--engine" in _options(context.command) and " " not in extra:
        return f"an engine is named by its option: {path} --engine {extra}"
    return f"{path} --help shows an example"
