"""Parts of a drawing as SVG text; every word of theirs is escaped here. Pure."""

from collections.abc import Iterable
from html import escape

WIDTH = 340
"""Units of every chart: as wide as a phone, so that 12 units are readable there."""


def svg(height: float, title: str, parts: str) -> str:
    """A whole chart. ``title`` is what a screen reader says."""
    said = escape(title, quote=True)
    return f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{said}"><title>{said}</title>{parts}</svg>'


def words(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    """A line of text."""
    attribute = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{attribute}>{escape(text)}</text>'


def line(one: tuple[float, float], two: tuple[float, float], kind: str) -> str:
    """A line between two points."""
    return f'<line class="{kind}" x1="{one[0]:.1f}" y1="{one[1]:.1f}" x2="{two[0]:.1f}" y2="{two[1]:.1f}"/>'


def box(x: float, y: float, size: tuple[float, float], kind: str, said: str = "") -> str:
    """A rectangle; ``said`` is shown when a pointer rests on it."""
    inside = f"<title>{escape(said)}</title>" if said else ""
    place = f'x="{x:.1f}" y="{y:.1f}" width="{max(0.5, size[0]):.1f}" height="{size[1]:.1f}"'
    return f'<rect class="{kind}" {place}>{inside}</rect>'


def dot(x: float, y: float, kind: str, said: str) -> str:
    """A point; ``said`` is shown when a pointer rests on it."""
    return f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="4"><title>{escape(said)}</title></circle>'


def path(points: list[tuple[float, float]], kind: str) -> str:
    """A line through points."""
    return f'<polyline class="{kind}" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}"/>'


def across(ticks: Iterable[tuple[float, str]], left: float, right: float) -> str:
    """Lines of a grid from left to right, each with its number beside it."""
    return "".join(line((left, y), (right, y), "grid") + words(left - 6, y + 4, text, "", "end") for y, text in ticks)


def down(ticks: Iterable[tuple[float, str]], top: float, bottom: float, unit: str = "") -> str:
    """Lines of a grid from top to bottom, each with its number below it."""
    return "".join(
        line((x, top), (x, bottom), "grid") + words(x, bottom + 14, text + unit, "", "middle") for x, text in ticks
    )
