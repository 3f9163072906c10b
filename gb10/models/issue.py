"""One thing that is wrong with a model recipe, with its line and a fix: what every check of a recipe returns. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Final, Literal

Level = Literal["error", "warning", "note"]
LEVELS: Final[tuple[Level, ...]] = ("error", "warning", "note")
"""The worst first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Issue:
    """``code`` is a short name that never changes (``missing-placeholder``); ``line`` starts at 1, 0 is the whole file.

    ``text`` says what is wrong, ``fix`` what to write instead; both are one sentence. An error stops the rendering.
    """

    code: str
    level: Level
    file: str
    line: int
    text: str
    fix: str

    @property
    def document(self) -> dict[str, object]:
        """The issue as data: code, level, file, line, text, fix."""
        return asdict(self)

    @property
    def where(self) -> str:
        """``FILE:LINE``, as editors open it."""
        return f"{self.file}:{self.line}" if self.line else self.file


def errors_of(issues: Iterable[Issue]) -> tuple[Issue, ...]:
    """The issues that stop a rendering."""
    return tuple(issue for issue in issues if issue.level == "error")


def in_order(issues: Iterable[Issue]) -> tuple[Issue, ...]:
    """Each issue once, in the order of the file, the worst of a line first."""
    return tuple(sorted(dict.fromkeys(issues), key=lambda one: (one.line, LEVELS.index(one.level), one.code, one.text)))


def lines_of(issues: Sequence[Issue]) -> list[str]:
    """The issues for people: ``FILE:LINE: error: TEXT [CODE]``, then an indented fix."""
    return [
        line
        for issue in issues
        for line in (f"{issue.where}: {issue.level}: {issue.text} [{issue.code}]", f"  fix: {issue.fix}")
        if not line.endswith("fix: ")
    ]
