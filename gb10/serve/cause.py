"""Why a server ended: the line of its log that tells the cause, and its exit code in words. Pure."""

import re
from collections.abc import Sequence
from typing import Final

GUARDED: Final = 99
"""The exit code of launch.sh when it ended the server because memory ran out."""
RAISED: Final = re.compile(r"(?:^|[\s)])(?:[\w.]*(?:Error|Exception|Interrupt|Exit)\b|[\w.]+\.[A-Z]\w*Error): ?\S")
SAYS: Final = re.compile(
    r"\b(?:error|fatal|failed|cannot|out of memory|killed|segmentation fault|not found|unrecognized arguments)\b", re.I
)
FOLLOWS: Final = re.compile(
    r"root cause above|Engine core initialization failed|EngineDeadError|engine core proc \S+ died|ChildProcessError",
    re.I,
)
"""Lines that only repeat that something failed before."""
SIGNALS: Final = {137: "SIGKILL", 139: "SIGSEGV", 143: "SIGTERM", 134: "SIGABRT", 135: "SIGBUS", 132: "SIGILL"}
LONGEST: Final = 300


def cause_of(lines: Sequence[str]) -> str | None:
    """The line of a log that tells why its server ended.

    That is the first exception that no other caused, else the first line that speaks of an error, else the last line.
    """
    texts = [line.strip() for line in lines if line.strip()]
    own = [line for line in texts if not FOLLOWS.search(line)]
    for sign in (RAISED, SAYS):
        found = next((line for line in own if sign.search(line)), None)
        if found:
            return found[:LONGEST]
    return texts[-1][:LONGEST] if texts else None


def ending_of(code: int, *, out_of_memory: bool) -> str:
    """An exit code in words."""
    if code == GUARDED:
        return "the memory guard ended it"
    if out_of_memory:
        return "it ran out of the memory that its container may use"
    return f"it was ended by {SIGNALS[code]}" if code in SIGNALS else f"it ended with code {code}"
