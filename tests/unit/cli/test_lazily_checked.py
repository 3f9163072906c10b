"""Values that stay what they are load no validator; all others are checked as Typer checks them."""

from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer

from gb10.cli.typer_click import Command, LazyCheck, UsageError, lazily_checked


class Colour(Enum):
    """Two values."""

    RED = "red"
    BLUE = "blue"


def verb(
    *,
    name: Annotated[str, typer.Argument()] = "a",
    text: Annotated[str | None, typer.Option()] = None,
    many: Annotated[list[str] | None, typer.Option()] = None,
    number: Annotated[int, typer.Option()] = 1,
    bounded: Annotated[int, typer.Option(min=1, max=3)] = 2,
    ratio: Annotated[float | None, typer.Option()] = None,
    path: Annotated[Path | None, typer.Option()] = None,
    existing: Annotated[Path | None, typer.Option(exists=True)] = None,
    colour: Annotated[Colour, typer.Option()] = Colour.RED,
    parsed: Annotated[str | None, typer.Option(parser=str.upper)] = None,
    verbose: Annotated[int, typer.Option("-v", count=True)] = 0,
    flag: Annotated[bool, typer.Option("--flag")] = False,
    either: Annotated[bool | None, typer.Option("--yes/--no")] = None,
) -> dict[str, Any]:
    """Returns what it gets."""
    return dict(locals())


def command(*, lazy: bool) -> Command:
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command()(verb)
    made = typer.main.get_command(app)
    return lazily_checked(made) if lazy else made


def outcome(given: str, *, lazy: bool) -> object:
    try:
        return command(lazy=lazy).main(given.split(), standalone_mode=False)
    except UsageError as error:
        return type(error).__name__, error.format_message()


@pytest.mark.parametrize(
    "given",
    [
        "",
        "b --text x --many y --many z --number 7 --bounded 3 --ratio 0.5 --path here --existing /tmp",
        "--colour blue --parsed small -vvv --flag --yes",
        "--no",
        "--number x",
        "--number 1.5",
        "--bounded 4",
        "--bounded 0",
        "--ratio x",
        "--existing /nowhere/at/all",
        "--colour green",
        "--text",
        "--nothing",
        "a b c",
        "--flag=x",
    ],
)
def test_values_are_what_typer_makes_of_them(given: str) -> None:
    assert outcome(given, lazy=True) == outcome(given, lazy=False)


def test_twice_is_once() -> None:
    made = lazily_checked(command(lazy=True))
    checks = [getattr(parameter, "get_runtime_param", None) for parameter in made.params]
    assert all(isinstance(check, LazyCheck) and not isinstance(check.make, LazyCheck) for check in checks)
