"""``.dockerignore``: which files of a folder a Docker build does not see, by Docker's documented rules. Pure.

A rule is a path of the build context with ``*``, ``?`` and classes within a folder, and ``**`` for any number of
folders. ``!`` takes a path back in, the last rule that matches decides, and a rule for a folder holds for all below it.
"""

import posixpath
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from gb10.core.linear_regex import LinearError, LinearPattern, linear
from gb10.errors import UsageError

MOST_BYTES: Final = 1 << 18
MOST_RULES: Final = 1_000
PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_/- ")


@dataclass(frozen=True, slots=True)
class Rule:
    """One line; ``back``: it takes in again what a rule above it left out."""

    pattern: LinearPattern
    back: bool


def read_rules(content: bytes, name: str) -> tuple[Rule, ...]:
    """The rules of a file. Raises UsageError for what Docker refuses, and for more than a person writes."""
    rows = content.decode("utf-8", "surrogateescape").removeprefix("\ufeff").split("\n")
    if len(content) > MOST_BYTES or len(rows) > 4 * MOST_RULES:
        raise UsageError(f"{name} is larger than a person writes", hint=f"at most {MOST_BYTES >> 10} KiB are read")
    found = list[Rule]()
    for number, row in enumerate(rows, 1):
        line = row.strip()
        if row.startswith("#") or not line:
            continue
        text = line.removeprefix("!").strip()
        if not text:
            raise UsageError(f"{name}:{number}: {line!r} names no path, and Docker refuses it")
        found.append(_rule(_cleaned(text).lstrip("/") or "/", f"{name}:{number}", back=line.startswith("!")))
    if len(found) > MOST_RULES:
        raise UsageError(f"{name} has more than {MOST_RULES:,} rules")
    return tuple(found)


def exclude_rules(patterns: Iterable[str]) -> tuple[Rule, ...]:
    """The rules of ``COPY --exclude``. They know no comments, and one that begins with a slash means nothing: paths
    below what is copied have none. Raises UsageError."""
    rows = [one.strip() for one in patterns if one.strip()]
    if len(rows) > MOST_RULES or sum(map(len, rows)) > MOST_BYTES:
        raise UsageError("--exclude has more patterns than a person writes")
    if "!" in rows:
        raise UsageError("--exclude: '!' names no path, and Docker refuses it")
    return tuple(_rule(_cleaned(row.removeprefix("!")), "--exclude", back=row.startswith("!")) for row in rows)


def _rule(path: str, where: str, *, back: bool) -> Rule:
    try:
        return Rule(linear("".join(_expression(path))), back)
    except LinearError as error:
        raise UsageError(f"{where}: {path[:80]!r} is no pattern of Docker's", where=str(error)) from error


def is_left_out(path: str, rules: tuple[Rule, ...]) -> bool:
    """Whether the build does not see a path of its context."""
    parts = path.split("/")
    paths = ["/".join(parts[: end + 1]) for end in range(len(parts))]
    out = False
    for rule in rules:
        if rule.back == out and any(rule.pattern.fullmatch(one) for one in paths):
            out = not rule.back
    return out


def _cleaned(text: str) -> str:
    """As Go's ``filepath.Clean``."""
    cleaned = posixpath.normpath(text.strip())
    return f"/{cleaned.lstrip('/')}" if cleaned.startswith("/") else cleaned


def _expression(pattern: str) -> Iterator[str]:
    """The regular expression of a pattern; a class stays as it is."""
    left = pattern
    while left:
        sign, left = left[0], left[1:]
        if sign == "*" and left.startswith("*"):
            left = left[1:].removeprefix("/")
            yield "(?s:.*/)?" if left else "(?s:.*)"
        elif sign == "*":
            yield "[^/]*"
        elif sign == "?":
            yield "[^/]"
        elif sign == "\\":
            yield rf"\x{{{ord(left[0]):x}}}" if left else r"\\"
            left = left[1:]
        elif sign in "[]^" or sign in PLAIN:
            yield sign
        else:
            yield rf"\x{{{ord(sign):x}}}"
