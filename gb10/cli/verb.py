"""What a verb is made of: its app, its reporter, options that are added to its signature."""

import importlib
import json
import os
from collections.abc import Callable, Mapping
from functools import wraps
from inspect import Signature, signature
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

import typer
from typer.core import TyperGroup

from gb10.cli.typer_click import lazily_checked
from gb10.core.config import unknown_variables, with_settings
from gb10.core.host import Host, open_host
from gb10.core.installation import as_started
from gb10.core.reporter import QUIET, VERBOSE, Reporter, terminal

if TYPE_CHECKING:
    from rich.table import Table

    from gb10.cli.typer_click import Command, Context


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
        parameters = [*added.values(), *own] if first else [*own, *added.values()]
        run.__signature__ = Signature(parameters)  # type: ignore[attr-defined] # Typer reads both
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorate


HELP_OPTIONS = ["-h", "--help"]
SETTINGS = {"help_option_names": HELP_OPTIONS, "max_content_width": 110}
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as one JSON document on stdout.")]
VerboseOption = Annotated[int, typer.Option("-v", "--verbose", count=True, show_default=False, help="Print details.")]
QuietOption = Annotated[bool, typer.Option("-q", "--quiet", help="Print nothing but the result and errors.")]
AllowUncheckedOption = Annotated[
    bool, typer.Option("--allow-unchecked", help="Exit 0, not 13, when a part could not be looked at.")
]


class Subcommands(TyperGroup):
    """A group that lists each subcommand with its whole first line: Typer cuts it.

    ``places`` are the subcommands in their order, each with its module below ``gb10.cli`` and its function; the module
    is imported when the subcommand is called. An empty place is in the group's own module.
    """

    places: ClassVar[Mapping[str, str]] = {}
    default: ClassVar[str] = ""
    """The subcommand that a call without one means; empty where there is none."""

    def parse_args(self, ctx: "Context", args: list[str]) -> list[str]:
        """The subcommand's name first, also where the user left it out."""
        if self.default and (not args or (args[0].startswith("-") and args[0] not in HELP_OPTIONS)):
            args = [self.default, *args]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: "Context") -> list[str]:
        """The subcommands in their order."""
        return list(self.places) or super().list_commands(ctx)

    def get_command(self, ctx: "Context", cmd_name: str) -> "Command | None":
        """The subcommand with its summary."""
        place = self.places.get(cmd_name)
        found = _imported(cmd_name, place) if place else super().get_command(ctx, cmd_name)
        if found is not None:
            lazily_checked(found).short_help = (found.help or "").partition("\n")[0]
        return found


def _imported(name: str, place: str) -> "Command":
    """The subcommand of ``MODULE:FUNCTION``."""
    module, _, function = place.partition(":")
    alone = verb_app("")
    alone.command(name)(getattr(importlib.import_module(f"gb10.cli.{module}"), function))
    found = typer.main.get_command(alone)
    found.name, found.help = name, as_started(found.help or "")
    return found


def verb_app(
    help_text: str, *, group: bool = False, places: Mapping[str, str] | None = None, default: str = ""
) -> typer.Typer:
    """A Typer for one verb; a group without a subcommand prints its help. The others: see ``Subcommands``."""
    return typer.Typer(
        cls=type("Group", (Subcommands,), {"places": places or {}, "default": default}) if group else None,
        help=help_text,
        no_args_is_help=group and not default,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        add_completion=False,
        context_settings=SETTINGS,
    )


def verbosity_of(verbose: int, *, quiet: bool) -> int:
    """The level of a Reporter; a second -v shows no more than the first."""
    return QUIET if quiet else min(verbose, VERBOSE)


def command_reporter(*, verbose: VerboseOption = 0, quiet: QuietOption = False) -> Reporter:
    """What a verb says to people, with the user's environment and verbosity."""
    reporter = Reporter(with_settings(os.environ), verbosity=verbosity_of(verbose, quiet=quiet))
    for line in unknown_variables(os.environ):
        reporter.say_once(line)
    return reporter


with_reporter = inject("reporter", command_reporter, first=False)
"""Adds -v and -q after a verb's own options; the verb gets its parameter ``reporter``. For verbs without a store."""


def command_host(*, verbose: VerboseOption = 0, quiet: QuietOption = False) -> Host:
    """The machine with the user's environment and verbosity."""
    return open_host(os.environ, verbosity=verbosity_of(verbose, quiet=quiet))


with_host = inject("host", command_host, first=False)
"""Adds -v and -q after a verb's own options; the verb gets its parameter ``host``. For verbs that plan nothing."""


def print_json(document: object) -> None:
    """Print one JSON document on stdout."""
    print(json.dumps(document, indent=2))


def print_table(env: Mapping[str, str], table: "Table", least: int = 0) -> None:
    """Print a table on stdout. It is ``least`` columns wide even where the terminal is narrower."""
    console = terminal(env, stderr=False)
    console.width = max(console.width, least)
    with console.capture() as printed:
        console.print(table)
    for line in printed.get().splitlines():
        print(line.rstrip())
