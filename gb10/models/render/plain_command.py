"""A command line that needs no shell: an engine's server and plain words. Pure.

A text is read here by rules that are narrower than those of any shell. What the rules do not know is no plain command.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

SERVERS: Final[tuple[tuple[str, ...], ...]] = (
    ("vllm", "serve"),
    ("sglang", "serve"),
    *(
        (python, "-m", module)
        for python in ("python", "python3")
        for module in ("vllm.entrypoints.openai.api_server", "sglang.launch_server")
    ),
    ("llama-server",),
    ("rpc-server",),
    ("trtllm-serve",),
    ("spark", "serve"),
    ("max", "serve"),
    ("tokenary",),
)
"""The first words of each engine's server, whole."""
GAP: Final = re.compile(r"(?: |\\\n)+")
"""Blanks, and a line that goes on."""
BARE: Final = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")
QUOTED: Final = re.compile(r"'([^'\\$`]*)'|\"([^\"\\$`]*)\"")
ASSIGNMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=")
SHOWN: Final = 60


class NotPlainError(Exception):
    """A command needs a shell, or starts something else; the text says what."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PlainCommand:
    """The words of a server, and the variables that are set before its name."""

    words: tuple[str, ...]
    environment: Mapping[str, str]


def plain_command(text: str) -> PlainCommand:
    """The words of a command line; raises NotPlainError for anything but an engine's server and plain words."""
    environment: dict[str, str] = {}
    words: list[str] = []
    for word, name in _words(text.lstrip(" \n")):
        if name and not words:
            environment[name] = word[len(name) + 1 :]
        else:
            words.append(word)
    if not words:
        raise NotPlainError("it starts nothing")
    if not any(tuple(words[: len(server)]) == server for server in SERVERS):
        raise NotPlainError(f"it starts something else: {_short(' '.join(words))}")
    return PlainCommand(words=tuple(words), environment=environment)


def _words(text: str) -> Sequence[tuple[str, str]]:
    """Each word, and the variable that it sets if it stands before the command; raises NotPlainError."""
    found: list[tuple[str, str]] = []
    position, begun = 0, -1
    while position < len(text):
        gap = GAP.match(text, position)
        if gap:
            position, begun = gap.end(), -1
            continue
        if text[position:] == "\\" or not text[position:].strip("\n "):  # a line that goes on, and nothing comes
            break
        piece, end = _piece(text, position)
        if begun < 0:
            begun = position
            assigned = ASSIGNMENT.match(text, position)
            found.append((piece, assigned[1] if assigned else ""))
        else:
            found[-1] = (found[-1][0] + piece, found[-1][1])
        position = end
    return found


def _piece(text: str, position: int) -> tuple[str, int]:
    """A part of a word and where it ends; raises NotPlainError."""
    bare = BARE.match(text, position)
    if bare:
        return bare[0], bare.end()
    quoted = QUOTED.match(text, position)
    if quoted is None:
        raise NotPlainError(_reason(text, position))
    inner = quoted[1] if quoted[1] is not None else quoted[2]
    odd = next((char for char in inner if not char.isprintable()), None)
    if odd is not None:
        raise NotPlainError(f"a quoted word holds the character U+{ord(odd):04X}: {_short(quoted[0])}")
    return inner, quoted.end()


def _reason(text: str, position: int) -> str:
    char, rest = text[position], _short(text[position:])
    if char == "\n":
        return f"it has a second line: {_short(text[position:].strip())}"
    if char in "'\"":
        sign = next((one for one in "\\$`" if one in text[position:]), "")
        return f"a quotation holds {sign} or does not end: {rest}" if sign else f"a quotation does not end: {rest}"
    if not char.isprintable():
        return f"it holds the character U+{ord(char):04X}"
    return f"a shell reads {char}: {rest}"


def _short(text: str) -> str:
    """The beginning of a text, in which nothing moves a terminal's cursor."""
    shown = "".join(char if char.isprintable() else " " for char in text[: SHOWN + 1])
    shown = " ".join(shown.split())
    return shown if len(text) <= SHOWN else f"{shown[:SHOWN]}…"
