"""A result for people: titles, tables, lines and charts; as one HTML file, or as markdown for a forum."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final

from jinja2 import Environment, StrictUndefined

TEMPLATE: Final = Path(__file__).with_name("bench.html.j2")


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of a page. ``rows`` are cells below ``head``; a cell of numbers is set to the right."""

    title: str
    lines: tuple[str, ...] = ()
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    charts: tuple[str, ...] = ()
    """SVG of the room ``chart``: all text in it is escaped."""
    folded: bool = False
    """Shown when a reader opens it."""

    @property
    def numbers(self) -> frozenset[int]:
        """The columns whose cells all begin with a number."""
        return frozenset(at for at in range(len(self.head)) if _all_numbers([row[at] for row in self.rows]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A whole result; ``kind`` is the colour of its verdict: good, bad or unsure."""

    title: str
    verdict: str
    kind: str
    lead: tuple[str, ...]
    sections: tuple[Section, ...]
    made: str


def html(page: Page) -> str:
    """One file: it loads nothing, runs no script, and follows the reader's colours."""
    env = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = env.from_string(TEMPLATE.read_text(encoding="utf-8"))
    return template.render(page=page) + "\n"


def markdown(page: Page) -> str:
    """Tables and lines, for a forum or an issue; what a page folds is left out. Pure."""
    parts = [f"**{_plain(page.title)}: {_plain(page.verdict)}**", *map(_plain, page.lead)]
    for section in (one for one in page.sections if not one.folded):
        if section.rows or section.lines:
            parts.append(f"**{_plain(section.title)}**")
        if section.rows:
            parts.append(_table(section))
        if section.lines:
            parts.append("\n".join(f"- {_plain(line)}" for line in section.lines))
    return "\n\n".join([*parts, f"<sub>{_plain(page.made)}</sub>"]) + "\n"


def _all_numbers(cells: Sequence[str]) -> bool:
    return any(cells) and all(cell[0] in "+-0123456789" for cell in cells if cell)


def _table(section: Section) -> str:
    rules = ["---:" if at in section.numbers else "---" for at in range(len(section.head))]
    lines = (section.head, rules, *section.rows)
    return "\n".join(f"| {' | '.join(map(_plain, line))} |" for line in lines)


def _plain(text: str) -> str:
    """A text without what markdown and HTML would read in it."""
    found = " ".join(text.split()).replace("\\", "\\\\")
    for sign in "|*_`[":
        found = found.replace(sign, f"\\{sign}")
    return escape(found, quote=False)
