"""The words of a shell's calls, with the place of each; its variables and arrays of plain texts. Pure."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from gb10.models.launches.container_launch import interpolated

ASSIGNED: Final = re.compile(r"^[ \t]*(?:export[ \t]+|readonly[ \t]+|local[ \t]+)?(\w{1,128})=(.*)$", re.MULTILINE)
ARRAY: Final = re.compile(r"^[ \t]*(?:local[ \t]+|declare[ \t]+-a[ \t]+)?(\w{1,128})(\+?)=\(", re.MULTILINE)
WHOLE: Final = re.compile(r"\$\{(\w{1,128})\[[@*]\]\}")
COMMENT: Final = re.compile(
    r"(?P<kept>\\.|'[^'\n]*'|\"(?:\\.|[^\"\\\n])*\")|(?:^|(?<=[\s;&|(]))#[^\n]*",
    re.MULTILINE,
)
"""A comment; or what is kept, with any ``#`` in it: texts in quotes."""
PLACEHOLDER: Final = re.compile(r"(?<==)<[A-Za-z][\w -]{0,60}>")
"""What a guide writes for a value of its reader, where a shell would read a file: ``TOKEN=<yours>``."""
COMMANDS: Final = ("$(", "`")
"""What begins the output of a command, which only the shell knows."""
MOST: Final = 64
"""Arrays of a script."""
MOST_WORDS: Final = 2000
"""Words of a call."""
LONGEST: Final = 64 << 10
"""Characters of one call."""


def without_comments(text: str) -> str:
    """The text with spaces in place of its comments, so that everything else stays where it is."""
    return COMMENT.sub(lambda found: found["kept"] or " " * len(found[0]), text)


def variables(text: str) -> dict[str, str]:
    """Assignments of plain texts; of a name that is assigned twice nothing is known."""
    found: dict[str, str] = {}
    twice = set()
    for name, value in ASSIGNED.findall(text):
        try:
            words = shlex.split(value, comments=True)
        except ValueError:
            continue
        if name in found or len(words) > 1 or any(sign in value for sign in COMMANDS):
            twice.add(name)
        else:
            found[name] = interpolated(words[0] if words else "", found)
    return {name: value for name, value in found.items() if name not in twice}


def arrays_of(text: str) -> dict[str, list[str]]:
    """Arrays of plain texts, with what is added to them further down."""
    found: dict[str, list[str]] = {}
    until = 0
    for start in ARRAY.finditer(text):
        if start.start() < until or len(found) >= MOST:
            continue
        words = list(shell_words(text, start.end(), ends=")"))
        until = words[-1][1] + len(words[-1][0]) if words else start.end()
        texts = [word for word, _ in words]
        found[start[1]] = [*found.get(start[1], ()), *texts][:MOST_WORDS] if start[2] else texts
    return found


def expanded(words: Sequence[tuple[str, int]], arrays: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, int]]:
    """The words of a call, the words of an array in place of its name."""
    for word, at in words:
        named = WHOLE.fullmatch(word)
        if named and named[1] in arrays:
            yield from ((one, at) for one in arrays[named[1]])
        else:
            yield word, at


def shell_words(text: str, start: int, ends: str = "\n;&|<>)") -> Iterator[tuple[str, int]]:
    """The words of a call with the offset of each one's start; up to the end of the call, or a quote without an end."""
    for word, at in written_words(text, start, ends):
        try:
            yield plain(word), at
        except ValueError:
            return


def written_words(text: str, start: int, ends: str = "\n;&|<>)", longest: int = LONGEST) -> Iterator[tuple[str, int]]:
    """The same words, with their quotes."""
    return islice(_words(text[start : start + longest], start, ends), MOST_WORDS)


def _words(body: str, start: int, ends: str) -> Iterator[tuple[str, int]]:
    at, last = 0, len(body)
    while at < last:
        sign = body[at]
        if sign == "\\" and body[at + 1 : at + 2] == "\n":
            at += 2
        elif sign in " \t\r" or (sign == "\n" and sign not in ends):
            at += 1
        elif sign in ends or sign in ";&|<>)":
            return
        else:
            end = word_end(body, at)
            if end is None or (body[at:end].isdecimal() and body[end : end + 1] in ("<", ">")):
                return  # a quote without an end, or the number of a file that is redirected
            yield body[at:end], start + at
            at = end


def plain(word: str) -> str:
    """A word without its quotes; as it is written where it holds a command. Raises ValueError."""
    parts = shlex.split(word.replace("\\\n", ""))
    return word if len(parts) > 1 and COMMANDS[0] in word else "".join(parts)


def word_end(body: str, at: int) -> int | None:
    """Where a word ends; None where a quotation mark or the bracket of a command is not closed."""
    quote, depth = "", 0
    while at < len(body):
        sign = body[at]
        if not quote and sign == "<" and (placeholder := PLACEHOLDER.match(body, at)):
            at = placeholder.end()
            continue
        if quote:
            if sign == "\\" and quote == '"':
                at += 1
            elif sign == quote:
                quote = ""
        elif sign in "'\"`":
            quote = sign
        elif sign == "\\":
            at += 1
        elif sign == "(" and (depth or body[at - 1 : at] == "$"):
            depth += 1
        elif sign == ")" and depth:
            depth -= 1
        elif sign in " \t\r\n;&|<>)" and not depth:
            return at
        at += 1
    return None if quote or depth else len(body)
