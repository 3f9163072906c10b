"""Tables for people: whole words, no blanks at the ends of lines."""

from collections.abc import Mapping

from rich.table import Table

from gb10.core.reporter import terminal


def print_table(env: Mapping[str, str], table: Table, least: int = 0) -> None:
    """Print a table on stdout. It is ``least`` columns wide even where the terminal is narrower."""
    console = terminal(env, stderr=False)
    console.width = max(console.width, least)
    with console.capture() as printed:
        console.print(table)
    for line in printed.get().splitlines():
        print(line.rstrip())
