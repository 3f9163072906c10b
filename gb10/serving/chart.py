"""Charts as SVG text: an axis, rows as bars, a figure by level, two sides. Every word of others is escaped. Pure."""

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

WIDTH = 340
"""Units of every chart: as wide as a phone, so that 12 units are readable there."""


def svg(height: float, title: str, parts: str) -> str:
    """A whole chart. ``title`` is what a screen reader says."""
    label = escape(title, quote=True)
    return f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{label}"><title>{label}</title>{parts}</svg>'


def words(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    """A line of text."""
    attribute = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{attribute}>{escape(text)}</text>'


def line(one: tuple[float, float], two: tuple[float, float], kind: str) -> str:
    """A line between two points."""
    return f'<line class="{kind}" x1="{one[0]:.1f}" y1="{one[1]:.1f}" x2="{two[0]:.1f}" y2="{two[1]:.1f}"/>'


def box(x: float, y: float, size: tuple[float, float], kind: str, tooltip: str = "") -> str:
    """A rectangle; ``tooltip`` is shown when a pointer rests on it."""
    inside = f"<title>{escape(tooltip)}</title>" if tooltip else ""
    place = f'x="{x:.1f}" y="{y:.1f}" width="{max(0.5, size[0]):.1f}" height="{size[1]:.1f}"'
    return f'<rect class="{kind}" {place}>{inside}</rect>'


def dot(x: float, y: float, kind: str, tooltip: str) -> str:
    """A point; ``tooltip`` is shown when a pointer rests on it."""
    return f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="4"><title>{escape(tooltip)}</title></circle>'


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


STEPS: Final = (1, 2, 2.5, 5, 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """From ``low`` at the place ``start`` to ``high`` at the place ``end``."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """The place of a value."""
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self, most: int = 5) -> list[tuple[float, str]]:
        """The places of round numbers within it, ``most`` of them or fewer, each with its text."""
        rough = (self.high - self.low) / max(1, most - 1)
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(power * one for one in STEPS if power * one >= rough * (1 - 1e-9))
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [(self.at(number * step), _text(number * step, step)) for number in range(first, last + 1)]


def _text(value: float, step: float) -> str:
    """A number with as many digits as its step has: ``1,200``, ``107.5``, ``0.25``."""
    digits = next(digits for digits in itertools.count() if math.isclose(round(step, digits), step, rel_tol=1e-9))
    return f"{value + 0.0:,.{digits}f}"


def axis_of(values: Iterable[float], start: float, end: float, *, zero: bool = False, spare: float = 0.08) -> Axis:
    """An axis that all values fit on, with some room at the ends; with zero when ``zero`` says so."""
    found = [value for value in values if math.isfinite(value)] or [0.0, 1.0]
    low, high = min(found), max(found)
    if zero:
        low, high = min(0.0, low), max(0.0, high)
    margin = (high - low or abs(high) or 1.0) * spare
    return Axis(low=low if zero and low == 0 else low - margin, high=high + margin, start=start, end=end)


BARS_LEFT, BARS_RIGHT, STEP = 8.0, WIDTH - 8.0, 34.0
LONGEST = 52
"""Characters of a name that fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A row: STABLE, FAIL or GARBAGE, and its figure when it has one."""

    name: str
    result: str
    value: float | None
    tooltip: str


def bars(title: str, rows: Sequence[Bar]) -> str:
    """A bar below each name, the longest first; rows without a figure say why they have none."""
    ordered = sorted(rows, key=lambda one: (one.value is None, -(one.value or 0.0)))
    along = axis_of([one.value or 0.0 for one in rows], BARS_LEFT, BARS_RIGHT - 44, zero=True)
    height = 46.0 + STEP * len(ordered)
    parts = [words(BARS_LEFT, 14, title, "head"), down(along.ticks(4), 24, height - 18)]
    for number, one in enumerate(ordered):
        y = 38.0 + STEP * number
        name = one.name if len(one.name) <= LONGEST else f"{one.name[: LONGEST - 1]}…"
        parts.append(words(BARS_LEFT, y, name))
        if one.value is None:
            parts.append(words(BARS_LEFT, y + 15, one.result, one.result.lower()))
        else:
            parts.append(box(BARS_LEFT, y + 4, (along.at(one.value) - BARS_LEFT, 12), one.result.lower(), one.tooltip))
            parts.append(words(along.at(one.value) + 4, y + 14, f"{one.value:.4g}"))
    return svg(height, f"{title}: {len(rows)} rows", "".join(parts))


LEVELS_LEFT, LEVELS_RIGHT, LEVELS_TOP, LEVELS_BOTTOM, LEVELS_HEIGHT = 52.0, WIDTH - 14.0, 26.0, 170.0, 204.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelFigures:
    """A level: requests at once, and the figure of each run."""

    concurrency: int
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What somebody published for a level."""

    concurrency: int
    value: float
    tooltip: str


def levels(title: str, measured: Sequence[LevelFigures], marks: Sequence[Mark] = ()) -> str:
    """The levels from left to right, on a scale of doublings."""
    counts = sorted({one.concurrency for one in measured} | {one.concurrency for one in marks})
    along = axis_of([math.log2(count) for count in counts], LEVELS_LEFT + 12, LEVELS_RIGHT, spare=0.02)
    up = axis_of(
        [*(value for one in measured for value in one.values), *(one.value for one in marks)],
        LEVELS_BOTTOM,
        LEVELS_TOP,
        zero=True,
    )
    parts = [words(LEVELS_LEFT, 14, title, "head"), across(up.ticks(), LEVELS_LEFT, LEVELS_RIGHT)]
    parts += [words(along.at(math.log2(count)), LEVELS_BOTTOM + 16, str(count), "", "middle") for count in counts]
    parts.append(words((LEVELS_LEFT + LEVELS_RIGHT) / 2, LEVELS_HEIGHT - 4, "requests at once", "", "middle"))
    means = [(along.at(math.log2(one.concurrency)), up.at(sum(one.values) / len(one.values))) for one in measured]
    parts.append(path(means, "meanline"))
    parts += [_cross(along.at(math.log2(one.concurrency)), up.at(one.value), one.tooltip) for one in marks]
    for one in measured:
        parts += [
            dot(along.at(math.log2(one.concurrency)), up.at(value), "sideA", f"{one.concurrency} at once: {value:.4g}")
            for value in one.values
        ]
    return svg(LEVELS_HEIGHT, title, "".join(parts))


def _cross(x: float, y: float, tooltip: str) -> str:
    inside = dot(x, y, "unseen", tooltip)
    return line((x - 5, y - 5), (x + 5, y + 5), "mark") + line((x - 5, y + 5), (x + 5, y - 5), "mark") + inside


SIDES_LEFT, SIDES_RIGHT, SIDES_TOP = 52.0, WIDTH - 10.0, 26.0
SIDES_BOTTOM, SIDES_HEIGHT = 150.0, 182.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One launch: which in turn, of which side (A or B), and its figure."""

    number: int
    side: str
    value: float


def launches(title: str, points: Sequence[Point]) -> str:
    """The launches from left to right; a short line is the mean of a side."""
    up = axis_of([one.value for one in points], SIDES_BOTTOM, SIDES_TOP)
    along = (
        axis_of([one.number for one in points], SIDES_LEFT + 10, SIDES_RIGHT - 6, spare=0.0)
        if len(points) > 1
        else None
    )
    parts = [words(SIDES_LEFT, 14, title, "head"), across(up.ticks(), SIDES_LEFT, SIDES_RIGHT)]
    for at, side in ((SIDES_RIGHT - 50, "A"), (SIDES_RIGHT - 18, "B")):
        parts += [dot(at, 10, f"side{side}", f"side {side}"), words(at + 8, 14, side)]
    for one in points:
        x = along.at(one.number) if along else (SIDES_LEFT + SIDES_RIGHT) / 2
        parts.append(
            dot(x, up.at(one.value), f"side{one.side}", f"launch {one.number + 1}, {one.side}: {one.value:.4g}")
        )
    for side in ("A", "B"):
        own = [one.value for one in points if one.side == side]
        if own:
            y = up.at(sum(own) / len(own))
            parts.append(line((SIDES_LEFT, y), (SIDES_RIGHT, y), f"mean{side}"))
    parts.append(
        words(
            (SIDES_LEFT + SIDES_RIGHT) / 2, SIDES_HEIGHT - 12, "launches, in the order in which they ran", "", "middle"
        )
    )
    return svg(SIDES_HEIGHT, f"{title}: {len(points)} launches", "".join(parts))


def effects(title: str, rows: Sequence[Mapping[str, object]], margin: float) -> str:
    """A line for each row: its ``label``, ``word`` and ``tooltip``, and ``effect``, ``low``, ``high`` as shares."""
    known = [row for row in rows if isinstance(row.get("effect"), float)]
    values = [
        100 * value for row in known for name in ("effect", "low", "high") if isinstance(value := row.get(name), float)
    ]
    along = axis_of([*values, 100 * margin, -100 * margin], 96.0, SIDES_RIGHT - 4, zero=True)
    height = 46.0 + 30.0 * len(known)
    within = (along.at(-100 * margin), along.at(100 * margin))
    parts = [
        words(8, 14, title, "head"),
        box(within[0], 24, (within[1] - within[0], height - 44), "margin", f"less than {margin:.1%}: the same"),
        down(along.ticks(), 24, height - 20, " %"),
    ]
    parts.append(line((along.at(0), 24), (along.at(0), height - 20), "axis"))
    for number, row in enumerate(known):
        parts += _effect(row, 40.0 + 30.0 * number, along.at)
    return svg(height, f"{title}: {len(known)} comparisons", "".join(parts))


def _effect(row: Mapping[str, object], y: float, at: Callable[[float], float]) -> list[str]:
    effect, low, high = (row.get(name) for name in ("effect", "low", "high"))
    kind = {"faster": "good", "more": "good", "slower": "bad", "fewer": "bad"}.get(str(row["word"]), "unsure")
    parts = [words(8, y + 4, str(row["label"]))]
    if isinstance(low, float) and isinstance(high, float):
        parts.append(line((at(100 * low), y), (at(100 * high), y), f"span {kind}"))
    if isinstance(effect, float):
        parts.append(dot(at(100 * effect), y, kind, str(row["tooltip"])))
    return parts
