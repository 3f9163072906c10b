"""Jinja as all templates are read: a name that is undefined is an error, and words are quoted by filters. Pure."""

import json
import re
import shlex
from collections.abc import Sequence
from functools import lru_cache

from jinja2 import DictLoader, Environment, StrictUndefined

NEWLINE = "GB10_NEWLINE"
PLAIN = re.compile(r"[A-Za-z0-9_./:@%+=,-]+")


def quoted(value: str) -> str:
    """In double quotes, where only the backslash, the quote and the dollar mean something."""
    escaped = re.sub(r'([\\"$])', r"\\\1", value)
    return '"' + escaped.replace("\n", f"${{{NEWLINE}}}") + '"'


def word(value: str) -> str:
    """As it is where nothing in it is special, else quoted."""
    return value if PLAIN.fullmatch(value) else quoted(value)


def shell(value: str) -> str:
    """As one word of a shell."""
    return f'"${NEWLINE}"'.join(shlex.quote(line) for line in value.split("\n"))


def array(values: Sequence[str]) -> str:
    """The exec form, which is JSON: nothing in it is expanded."""
    return json.dumps(list(values))


@lru_cache(maxsize=4)
def jinja(templates: tuple[tuple[str, str], ...]) -> Environment:
    """Compiled templates, kept by their texts: compiling them takes most of the time of a plan."""
    made = Environment(
        loader=DictLoader(dict(templates)), undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False
    )
    made.filters |= {"quoted": quoted, "word": word, "shell": shell, "json": array}
    return made
