"""Why a server ended: the line of its log that tells the cause, and its exit code in words. Pure."""

from collections.abc import Sequence
from textwrap import shorten
from typing import Final

from gb10.core.log_words import first_error

GUARDED: Final = 99
"""The exit code of launch.sh when it ended the server because memory ran out."""
GUARD: Final = "gb10: "
"""How a line of launch.sh begins."""
GUARD_ENDS: Final = "the memory guard ends the server"
SIGNALS: Final = {137: "SIGKILL", 139: "SIGSEGV", 143: "SIGTERM", 134: "SIGABRT", 135: "SIGBUS", 132: "SIGILL"}
LONGEST: Final = 300


def cause_of(lines: Sequence[str]) -> str | None:
    """The line of a log that tells why its server ended.

    That is the first exception that no other caused, else the first line that speaks of an error, else the last line.
    """
    texts = [line.strip() for line in lines if line.strip()]
    return error_line(texts) or (_short(texts[-1]) if texts else None)


def error_line(lines: Sequence[str]) -> str | None:
    """The line of a log that tells of an error; None for a log without one."""
    found = first_error([line.strip() for line in lines])
    return _short(found) if found else None


def guard_report(lines: Sequence[str]) -> list[str]:
    """What the memory guard printed of the last end of a server: its rule, and the figures of half a minute."""
    start = max((index for index, line in enumerate(lines) if GUARD_ENDS in line), default=None)
    return [] if start is None else [line.strip() for line in lines[start:] if line.startswith(GUARD)]


def ending_of(code: int, *, out_of_memory: bool) -> str:
    """An exit code in words."""
    if code == GUARDED:
        return "the memory guard ended it"
    if out_of_memory:
        return "it ran out of the memory that its container may use"
    return f"it was ended by {SIGNALS[code]}" if code in SIGNALS else f"it ended with code {code}"


def _short(line: str) -> str:
    return shorten(line, LONGEST, placeholder=" …")
