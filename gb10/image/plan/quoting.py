"""Quoting: a value as one word of a Dockerfile instruction, or of the shell that a RUN starts. Pure.

No instruction can hold a newline: a build argument brings it.
"""

import json
import re
import shlex
from collections.abc import Sequence

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
