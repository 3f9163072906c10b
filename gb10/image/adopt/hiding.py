"""Secrets of a Dockerfile: which values are ones, and texts without them. Pure."""

import posixpath
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, chain
from typing import Final

from gb10.core.secret_kinds import BEGIN, FINISH, Span, of_kinds
from gb10.core.secret_names import Level, level_of
from gb10.core.secret_values import after_names
from gb10.inside.scan.hazards import NAMED, of_content

HIDDEN: Final = "***"
BETWEEN: Final = "\n\0\n"
SHORTEST: Final = 8
LONGEST: Final = 4096
"""Characters of a value that are looked at: no recipe keeps a longer one."""
SETTING: Final = re.compile(r"(?<![\w.-])([A-Za-z_]\w*)=(\"[^\"\n]*\"|'[^'\n]*'|[^\s;&|]+)")
OLD_FORM: Final = re.compile(r"ENV[ \t]+(\w+)[ \t]+([^=\n]*)", re.IGNORECASE)
SWITCH: Final = re.compile(r"true|false|yes|no|on|off|none|null|0|1", re.IGNORECASE)
"""A value that is no secret, whatever its name is."""
LOGIN: Final = re.compile(rb"://[^\s:/@\"'<>{}$%]{1,100}:[^\s:/@\"'<>{}$%*]{3,200}@[A-Za-z0-9\[]")
"""A URL with a password that is no variable."""
LONGEST_FINISH: Final = 128
"""Characters of the last line of a key."""
FILES: Final = re.compile(r"\.env(\.(?!example|sample|template).*)?|id_(rsa|dsa|ecdsa|ed25519)")
"""Names of files that hold keys and passwords, whatever stands in them."""


def is_secret(name: str, value: str) -> bool:
    """Whether a variable is a secret, by its name or by its value."""
    return bool(value) and (_has_secret_name(name, value) or _shows(value[:LONGEST]))


def _has_secret_name(name: str, value: str) -> bool:
    return level_of(name) >= Level.STRONG and not SWITCH.fullmatch(value)


def holds_secret(text: str, *, names: bool = True) -> bool:
    """Whether a text holds a secret of a known form or, with ``names``, behind the name of one."""
    found = chain(of_kinds(text), _values(text) if names else ())
    return any(True for _ in found)


@lru_cache(maxsize=1 << 10)
def _shows(value: str) -> bool:
    return len(value) >= SHORTEST and any(True for _ in of_kinds(value))


def _values(text: str) -> Iterator[Span]:
    """Values behind the name of a secret: no variables, and no options of a program of that name."""
    return (span for span in after_names(text, Level.STRONG) if text[span[0]] not in "$-")


def is_secret_file(path: str, content: bytes) -> bool:
    """Whether a file holds a secret, by its name or by its content."""
    name = posixpath.basename(path)
    pattern = NAMED.get(name) if name.startswith(".") else None
    named = FILES.fullmatch(name) or (pattern and re.search(pattern, content, re.MULTILINE))
    return bool(named) or any(True for _ in of_content(content, path))


def hidden(texts: Sequence[str], *, names: bool = True) -> Iterator[str]:
    """Texts as they may be shown: HIDDEN in place of each secret in them, by its form or, with ``names``, by the name
    before it. They are read as one, which is fast."""
    whole = BETWEEN.join(texts)
    starts = [*accumulate((len(text) + len(BETWEEN) for text in texts), initial=0)]
    settings = (
        found.span(2)
        for pattern in (SETTING, OLD_FORM)
        for found in pattern.finditer(whole)
        if _has_secret_name(found[1], found[2].strip("\"'")) and not found[2].lstrip("\"'").startswith("$")
    )
    parts, done = list[str](), 0
    spans = chain(of_kinds(whole), _values(whole) if names else (), settings)
    for start, end in sorted(_within_texts(whole, starts, spans)):
        parts += [whole[done:start], HIDDEN] if start >= done else []
        done = max(done, end)
    yield from "".join([*parts, whole[done:]]).split(BETWEEN)


def _within_texts(whole: str, starts: Sequence[int], spans: Iterable[Span]) -> Iterator[Span]:
    """The spans within the text in which they begin, or end: a key without its other end hides nothing of the rest."""
    for start, end in spans:
        first, last = bisect_right(starts, start) - 1, bisect_right(starts, end - 1) - 1
        finished = first != last and FINISH.search(whole, max(start, end - LONGEST_FINISH), end)
        begun = not finished or BEGIN.match(whole, start)
        for number in (*([first] if begun else []), *([last] if finished else [])):
            inside = max(start, starts[number]), min(end, starts[number + 1] - len(BETWEEN))
            if inside[0] < inside[1]:
                yield inside
