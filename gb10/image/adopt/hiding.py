"""Secrets of a Dockerfile: which values are ones, and texts without them. Pure."""

import posixpath
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from gb10.core.secret_kinds import of_kinds
from gb10.core.secret_names import Level, level_of
from gb10.inside.scan.hazards import NAMED, of_content

HIDDEN: Final = "***"
BETWEEN: Final = "\n\0\n"
SHORTEST: Final = 8
LONGEST: Final = 4096
"""Characters of a value that are looked at: no recipe keeps a longer one."""
SETTING: Final = re.compile(r"(?<![\w.-])([A-Za-z_]\w*)=(\"[^\"\n]*\"|'[^'\n]*'|[^\s;&|]+)")
OLD_FORM: Final = re.compile(r"ENV[ \t]+(\w+)[ \t]+([^=\n]*)", re.IGNORECASE)
FILES: Final = re.compile(r"\.env(\.(?!example|sample|template).*)?|id_(rsa|dsa|ecdsa|ed25519)")
"""Names of files that hold keys and passwords, whatever stands in them."""


def is_secret(name: str, value: str) -> bool:
    """Whether a variable is a secret, by its name or by its value."""
    return bool(value) and (level_of(name) >= Level.STRONG or _shows(value[:LONGEST]))


@lru_cache(maxsize=1 << 10)
def _shows(value: str) -> bool:
    return len(value) >= SHORTEST and any(True for _ in of_kinds(value))


def is_secret_file(path: str, content: bytes) -> bool:
    """Whether a file holds a secret, by its name or by its content."""
    name = posixpath.basename(path)
    pattern = NAMED.get(name) if name.startswith(".") else None
    named = FILES.fullmatch(name) or (pattern and re.search(pattern, content, re.MULTILINE))
    return bool(named) or any(True for _ in of_content(content, path))


def hidden(texts: Sequence[str]) -> Iterator[str]:
    """Texts as they may be shown: HIDDEN in place of each secret in them. They are read as one, which is fast."""
    whole = BETWEEN.join(texts)
    named = (
        found.span(2)
        for pattern in (SETTING, OLD_FORM)
        for found in pattern.finditer(whole)
        if level_of(found[1]) >= Level.STRONG and not found[2].lstrip("\"'").startswith("$")
    )
    parts, done = list[str](), 0
    for start, end in sorted((*of_kinds(whole), *named)):
        if start >= done:
            parts += [whole[done:start], HIDDEN + BETWEEN * whole.count(BETWEEN, start, end)]
        elif end > done:
            parts.append(BETWEEN * whole.count(BETWEEN, done, end))
        done = max(done, end)
    yield from "".join([*parts, whole[done:]]).split(BETWEEN)
