"""Names of modules against the patterns of a quantization: exact names, globs, and ``re:`` expressions. Pure.

A config is from anybody: an expression that could take long is refused.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final

from gb10.errors import UsageError

MOST: Final = 100_000
"""Patterns of a config."""
LONGEST: Final = 300
"""Characters of a pattern."""
REPEATS: Final = 6
"""Repetitions in an expression: each multiplies its time by the length of a name."""
SLOW: Final = re.compile(r"\)[*+?{]|\\[0-9]")
"""A repeated group, or a reference back: these can take exponential time."""
PREFIXES: Final = ("", "model.", "model.language_model.", "language_model.model.", "language_model.", "backbone.")
"""What model files and configs write before ``layers.``."""
INNER: Final = re.compile(r"^(?!mtp)(?:[\w.*]*?\.)?(layers\.\d+\..*|layers\.\d+\*?)$")
"""A pattern for one layer of the decoder; those of ``mtp.layers`` are drafts."""
NUMBER: Final = re.compile(r"layers\.(\d+)")
EXPERT: Final = re.compile(r"experts\.\d+(?=\.|$)")


class NamePatterns:
    """A set of patterns, sorted by the layer that they name, so that most names meet few of them."""

    def __init__(self, patterns: Iterable[object]) -> None:
        self.by_layer: defaultdict[int | None, set[str]] = defaultdict(set)
        for pattern in patterns:
            if not isinstance(pattern, str) or len(pattern) > LONGEST:
                raise UsageError("the config's quantization has a module that is no name", hint="docs/models.md")
            self._add(EXPERT.sub("experts.*", pattern))

    def _add(self, pattern: str) -> None:
        inner = INNER.match(pattern)
        name = inner[1] if inner else pattern
        number = None if name.startswith("re:") else NUMBER.match(name)
        self.by_layer[int(number[1]) if number else None].add(name)

    def __bool__(self) -> bool:
        return bool(self.by_layer)

    def match(self, name: str) -> bool:
        """Whether a pattern names the module, or one around it."""
        number = NUMBER.match(name)
        near = self.by_layer.get(int(number[1]), set()) if number else set()
        parents = set(_around(name))
        return bool(parents & near) or any(_matches(one, name) for one in (*near, *self.by_layer.get(None, ())))


def _around(name: str) -> Iterator[str]:
    """The name, and each module around it."""
    parts = name.split(".")
    yield from (".".join(parts[:length]) for length in range(len(parts), 0, -1))


@lru_cache(maxsize=1 << 16)
def _matches(pattern: str, name: str) -> bool:
    spelled = [prefix + name for prefix in PREFIXES]
    if pattern.startswith("re:"):
        expression = _expression(pattern[3:])
        return any(expression.match(one) for one in spelled)
    if "*" in pattern or "?" in pattern or "[" in pattern:
        return any(fnmatchcase(one, pattern) or fnmatchcase(one, f"{pattern}.*") for one in spelled)
    return ("." not in pattern and pattern in name.split(".")) or any(pattern in _around(one) for one in spelled)


@lru_cache(maxsize=1024)
def _expression(text: str) -> re.Pattern[str]:
    if SLOW.search(text) or len(re.findall(r"[*+{]", text)) > REPEATS:
        raise UsageError(
            f"the config's quantization has an expression that may take too long: {text[:80]!r}",
            hint="give the model's files: --weights DIR",
        )
    try:
        return re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise UsageError(f"the config's quantization has a wrong expression {text[:80]!r}", where=str(error)) from error
