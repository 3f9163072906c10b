"""The name by which the user started gb10; hints and help pages show commands under it."""

import re
import sys
from typing import Final

CHECKOUT: Final = "./build.py"
"""The name that texts in the source have."""
COMMAND: Final = re.compile(r"(?<![\w./-])\./build\.py(?= )")


def program(started: str | None = None) -> str:
    """``gb10`` for the installed command, ``python3 -m gb10`` for the package, else ``./build.py``."""
    path = sys.argv[0] if started is None else started
    if path.endswith("/gb10/__main__.py"):
        return "python3 -m gb10"
    return "gb10" if path.rpartition("/")[2] == "gb10" else CHECKOUT


def as_started(text: str, started: str | None = None) -> str:
    """A text with the program's name in each command that it shows; paths that end in build.py stay."""
    return COMMAND.sub(program(started), text)
