"""Edits of a serve command as sparkrun makes them: line continuations, flags that are filled in or replaced. Pure."""

import re
from typing import Final

BROKEN: Final = re.compile(r"\\[ \t]+\n")
QUOTES: Final = "\"'`"


def mended(command: str) -> str:
    """The command with each ``\\``, blanks, newline made a line continuation again."""
    return BROKEN.sub("\\\\\n", command)


def has_flag(command: str, flag: str) -> bool:
    """Whether a flag is a word of the command, alone or as ``FLAG=VALUE``."""
    return re.search(rf"(?<!\S){re.escape(flag)}(?=[=\s]|$)", command) is not None


def appended(command: str, *words: str) -> str:
    """The command with words at its end, after a dangling line continuation is taken off."""
    return " ".join([without_dangling(command), *words]) if command else " ".join(words)


def with_flag(command: str, flag: str, value: object, *, replace: bool = False) -> str:
    """The command with a flag: kept as it is when it is there, or with its first value replaced."""
    if has_flag(command, flag):
        pattern = rf"(?<!\S){re.escape(flag)}(=|\s+(?:\\\n\s*)?)\S+"
        changed, count = re.subn(pattern, lambda found: f"{flag}{found[1]}{value}", command, count=1)
        if not replace or count:
            return changed if replace else command
    return appended(command, f"{flag} {value}")


def without_dangling(command: str) -> str:
    """The command without an escape at its end that has nothing to escape."""
    command = command.rstrip()
    while command.endswith("\\") and _ends_escaped(command):
        command = command[:-1].rstrip()
    return command


def _ends_escaped(command: str) -> bool:
    """Whether the last character is an escape as a shell reads it: outside of quotes and comments."""
    quote, escaping, escaped, comment, dollar, start = "", False, False, False, False, True
    for char in command:
        if comment:
            comment, start = char != "\n", start or char == "\n"
        elif escaped:
            escaped = dollar = False
            start = start and char == "\n"
        elif quote:
            quote = "" if char == quote else quote
            escaped = bool(quote) and char == "\\" and escaping
        elif char in QUOTES:
            quote, escaping = char, char != "'" or dollar
            start = dollar = False
        elif char == "\\":
            escaped = True
        elif char == "#" and start:
            comment = True
        else:
            start = char.isspace() or char in ";|&()<>"
            dollar = char == "$"
    return escaped and not quote and not comment
