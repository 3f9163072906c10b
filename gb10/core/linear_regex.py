"""Regular expressions over texts of others: an engine whose time grows with the text, whatever stands in it.

Python's own engine tries again from each place: one line can take it minutes. What this engine cannot compile (a look
around, a reference back) is refused when it is compiled, not when a text comes.
"""

from collections.abc import Iterator
from functools import cache
from typing import Protocol

import re2


class LinearMatch(Protocol):
    """A match, as Python's."""

    def __getitem__(self, group: int | str) -> str | None: ...
    def start(self, group: int = 0) -> int: ...
    def end(self, group: int = 0) -> int: ...
    def span(self, group: int = 0) -> tuple[int, int]: ...
    def groups(self) -> tuple[str | None, ...]: ...
    def groupdict(self) -> dict[str, str | None]: ...


class LinearError(ValueError):
    """Not a regular expression, or one whose time has no bound."""


class LinearPattern:
    """A compiled expression. Classes such as ``\\w`` are ASCII; ``$`` is the end of the text alone."""

    def __init__(self, pattern: str, *, ignore_case: bool = False) -> None:
        """Raises LinearError."""
        options = re2.Options()
        options.log_errors = False
        options.case_sensitive = not ignore_case
        options.max_mem = 64 << 20
        try:
            self._compiled = re2.compile(pattern, options)
        except re2.error as error:
            reason = error.args[0] if error.args else error
            raise LinearError(
                reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
            ) from error
        self.pattern = pattern
        self.groups = int(self._compiled.groups)

    def search(self, text: str) -> LinearMatch | None:
        """The first match."""
        found: LinearMatch | None = self._compiled.search(encodable(text))
        return found

    def match(self, text: str) -> LinearMatch | None:
        """The match at the beginning."""
        found: LinearMatch | None = self._compiled.match(encodable(text))
        return found

    def fullmatch(self, text: str) -> LinearMatch | None:
        """The match of all of it."""
        found: LinearMatch | None = self._compiled.fullmatch(encodable(text))
        return found

    def finditer(self, text: str) -> Iterator[LinearMatch]:
        """The matches, one behind the other."""
        found: Iterator[LinearMatch] = self._compiled.finditer(encodable(text))
        return found

    def sub(self, text: str, instead: str) -> str:
        """The text with something in place of each match."""
        return str(self._compiled.sub(lambda found: instead, encodable(text)))


@cache
def linear(pattern: str, *, ignore_case: bool = False) -> LinearPattern:
    """An expression, compiled once; raises LinearError."""
    return LinearPattern(pattern, ignore_case=ignore_case)


def encodable(text: str) -> str:
    """The text, or one of the same length without halves of characters (argv and files may have these)."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return "".join("\N{REPLACEMENT CHARACTER}" if "\ud800" <= one <= "\udfff" else one for one in text)
    return text
