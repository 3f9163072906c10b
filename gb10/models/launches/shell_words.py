"""The words of a shell's calls, with the place of each; its variables and arrays of plain texts. Pure."""

import re
import shlex
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, islice
from typing import Final

from gb10.models.launches.container_launch import OF_SCRIPT, ContainerLaunch, Taken, interpolated

ASSIGNED: Final = re.compile(r"^[ \t]*(?:export[ \t]+|readonly[ \t]+|local[ \t]+)?(\w{1,128})=(.*)$", re.MULTILINE)
DEFAULTED: Final = re.compile(r"^[ \t]*:[ \t]+\"?\$\{(\w{1,128}):?=([^{}\n]{0,1024})\}", re.MULTILINE)
"""``: "${NAME:=value}"`` gives a variable its value where it has none."""
ARRAY: Final = re.compile(
    r"(?P<branch>^[^\n#]{0,400}(?:&&|\|\||\bthen\b|\belse\b)[ \t]*|^[ \t]*)"
    r"(?:local[ \t]+|declare[ \t]+-a[ \t]+)?(?P<name>\w{1,128})(?P<adds>\+?)=\(",
    re.MULTILINE,
)
BLOCK: Final = re.compile(
    r"(?:^|[;&|]|\b(?:then|else|do))[ \t]*(?:(if|case|for|while|until)|(fi|esac|done))\b", re.MULTILINE
)
"""What begins and what ends a part of a script by which the shell may not come."""
ARGUMENTS: Final = re.compile(r"\$[@*]|\$\{[@*](?::[^{}]{0,20})?\}")
"""The script's own arguments."""
BEHIND: Final = re.compile(r"[ \t]*\r?\n[ \t]*--?[A-Za-z]")
"""An option on a line of its own, behind the end of a call: the line before it has no backslash."""
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
"""Arrays of a script, and what branches add to one of them."""
MOST_WORDS: Final = 2000
"""Words of a call."""
LONGEST: Final = 64 << 10
"""Characters of one call."""


def without_comments(text: str) -> str:
    """The text with spaces in place of its comments, so that everything else stays where it is."""
    return COMMENT.sub(lambda found: found["kept"] or " " * len(found[0]), text)


@dataclass(frozen=True, kw_only=True, slots=True)
class Arrays:
    """The arrays of a script; ``conditional`` are the place and the text of what a branch would add or put there."""

    words: Mapping[str, Sequence[str]]
    conditional: Mapping[str, Sequence[tuple[int, str]]] = field(default_factory=dict)


def variables(text: str) -> dict[str, str]:
    """Assignments of plain texts, and defaults; of a name that is assigned twice nothing is known."""
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
    for name, value in DEFAULTED.findall(text):
        found.setdefault(name, interpolated(value, found))
    return {name: value for name, value in found.items() if name not in twice}


def arrays_of(text: str) -> Arrays:
    """Arrays of plain texts, with what is added to them further down, but for what stands in a branch."""
    found: dict[str, list[str]] = {}
    conditional: dict[str, list[tuple[int, str]]] = {}
    blocks = [(block.end(), 1 if block[1] else -1) for block in BLOCK.finditer(text)]
    places = [place for place, _ in blocks]
    depths = list(accumulate((step for _, step in blocks), lambda depth, step: max(depth + step, 0), initial=0))
    until = 0
    for start in ARRAY.finditer(text):
        if start.start("name") < until or len(found) >= MOST:
            continue
        words, name = list(shell_words(text, start.end(), ends=")")), start["name"]
        until = end_of(text, words, start.end())
        texts = [word for word, _ in words]
        branch = start["branch"].strip() or depths[bisect_right(places, start.start("name"))]
        if branch and (start["adds"] or name in found):
            if len(held := conditional.setdefault(name, [])) < MOST:
                held.append((start.start("name"), " ".join(texts)))
        else:
            found[name] = [*found.get(name, ()), *texts][:MOST_WORDS] if start["adds"] else texts
    return Arrays(words=found, conditional=conditional)


def expanded(words: Sequence[tuple[str, int]], arrays: Arrays) -> Iterator[tuple[str, int]]:
    """The words of a call, the words of an array in place of its name, without the script's own arguments."""
    for word, at in words:
        named = WHOLE.fullmatch(word)
        if named and named[1] in arrays.words:
            yield from ((one, at) for one in arrays.words[named[1]])
        elif not ARGUMENTS.fullmatch(word):
            yield word, at


def line_at(text: str, at: int) -> int:
    """The line of a place, from 1."""
    return text.count("\n", 0, at) + 1


def with_what_is_left(
    launch: ContainerLaunch, text: str, words: Sequence[tuple[str, int]], arrays: Arrays, until: int
) -> ContainerLaunch:
    """A launch with what its call leaves out: what only the script's run decides, an option behind a missing backslash.

    ``words`` are those of the call as they are written, ``until`` is its end.
    """
    left = (Taken(line=line_at(text, at), written=one[:200], why=why) for at, one, why in _unknown(words, arrays))
    behind = BEHIND.match(text, until)
    return replace(
        launch, taken=(*launch.taken, *left), behind=line_at(text, behind.end() - 1) if behind else launch.behind
    )


def _unknown(words: Sequence[tuple[str, int]], arrays: Arrays) -> Iterator[tuple[int, str, str]]:
    """The place and the text of what a call may have besides, and why it is left out."""
    for word, at in words:
        named = WHOLE.fullmatch(word)
        for place, text in arrays.conditional.get(named[1], ()) if named else ():
            yield place, text, OF_SCRIPT[0]
        if ARGUMENTS.fullmatch(word):
            yield at, word, OF_SCRIPT[1]


def end_of(text: str, words: Sequence[tuple[str, int]], start: int) -> int:
    """Where a call ends, behind the quotes of its last word; ``start`` for one without words."""
    return (word_end(text, words[-1][1]) or len(text)) if words else start


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
