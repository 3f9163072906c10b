"""Texts without secrets: tokens, keys, passwords, logins, whatever they stand in. Pure."""

import base64
import html
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Final
from urllib.parse import quote, quote_plus

from gb10.core.linear_regex import linear
from gb10.core.secret_kinds import Span, of_kinds
from gb10.core.secret_names import Level, level_of
from gb10.core.secret_values import after_names, is_secret

HIDDEN: Final = "***"
AT_ONCE: Final = 100
"""Values that are sought by one expression."""
LEAST: Final = 3
"""Characters of a value that is sought wherever it stands; of a number one more."""
ALONE: Final = 8
"""A shorter one counts only as a whole word."""
FOLDERS: Final = ("PWD", "OLDPWD", "INIT_CWD")


def masked(text: str, known: Iterable[str] = ()) -> str:
    """The text, with HIDDEN in place of what looks like a secret, and of each value of ``known``."""
    out, done = [], 0
    for start, end in sorted(chain(after_names(text), of_kinds(text), _known(text, known))):
        if end <= done or text[start:end] == HIDDEN:
            continue
        if start >= done:
            out += [text[done:start], HIDDEN]
        done = end
    return "".join([*out, text[done:]])


def masked_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Variables, without the values of those whose names speak of a secret."""
    return {name: HIDDEN if _is_secret(name, value) else masked(value) for name, value in environment.items()}


def secrets_of(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The secrets of an environment: values by their names, and the passwords of logins in the others. Pure."""
    found: dict[str, None] = {}
    for name, value in environment.items():
        if _is_secret(name, value) and is_secret(value, Level.STRONG):
            found[value] = None
        for start, end in of_kinds(value):
            part = value[start:end]
            found[part.partition(":")[2] if "://" in value and ":" in part else part] = None
    return tuple(one for one in found if len(one) >= LEAST + one.isdigit() and not one.isspace())


def secrets_in(command: str) -> tuple[str, ...]:
    """What follows the names of secrets in a command. Pure."""
    found = (command[start:end].strip() for start, end in after_names(command))
    return tuple(one for one in found if len(one) >= ALONE and one != HIDDEN)


def _is_secret(name: str, value: str) -> bool:
    if not value or level_of(name) is Level.NONE:
        return False
    return not (name in FOLDERS and value.startswith("/"))


def _known(text: str, values: Iterable[str]) -> Iterator[Span]:
    """Where values stand, as they are or as JSON, URLs, shells and others write them."""
    forms = sorted({form for value in values for form in _forms(value) if len(form) >= LEAST}, key=len, reverse=True)
    for first in range(0, len(forms), AT_ONCE):
        some = forms[first : first + AT_ONCE]
        for found in linear("|".join(map(re.escape, some))).finditer(text):
            start, end = found.span()
            if end - start >= ALONE or not (_in_word(text, start - 1, start) or _in_word(text, end - 1, end)):
                yield start, end


def _in_word(text: str, one: int, other: int) -> bool:
    return one >= 0 and other < len(text) and text[one].isalnum() and text[other].isalnum()


def _forms(value: str) -> Iterator[str]:
    yield value
    yield value.strip()
    yield from (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], repr(value)[1:-1])
    yield json.dumps(json.dumps(value))[3:-3]
    yield from (
        quote(value, safe=""),
        quote(value),
        quote_plus(value),
        html.escape(value),
        value.replace("'", "'\"'\"'"),
    )
    if len(value) >= ALONE:
        yield base64.b64encode(value.encode("utf-8", "surrogateescape")).decode().rstrip("=")
