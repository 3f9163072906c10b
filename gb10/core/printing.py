"""Texts of others, made safe for a terminal: names, labels, lines of logs. Pure."""

import re
from typing import Final

COLOUR: Final = re.compile(r"\x1b\[[0-9;:]{0,40}m")
"""What sets the colour of the text behind it, and nothing else."""
KEPT: Final = frozenset("\n\t")


def printable(text: str) -> str:
    """A name of others in one line: every control character is escaped."""
    return text if text.isprintable() else "".join(map(_escaped, text))


def visible(text: str) -> str:
    """Lines of others: colours are left out, other control characters but tab and line feed are escaped."""
    if text.isprintable():
        return text
    return "".join(one if one in KEPT else _escaped(one) for one in COLOUR.sub("", text))


def _escaped(sign: str) -> str:
    return sign if sign.isprintable() else sign.encode("unicode_escape").decode()
