"""Two sides: every launch as a dot in the order in which it ran, and the difference with its interval. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gb10.serving.chart.axis import axis_of
from gb10.serving.chart.drawing import WIDTH, across, box, dot, down, line, svg, words

LEFT, RIGHT, TOP = 52.0, WIDTH - 10.0, 26.0
BOTTOM, HEIGHT = 150.0, 182.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One launch: which in turn, of which side (A or B), and its figure."""

    number: int
    side: str
    value: float


def launches(title: str, points: Sequence[Point]) -> str:
    """The launches from left to right; a short line is the mean of a side."""
    up = axis_of([one.value for one in points], BOTTOM, TOP)
    along = axis_of([one.number for one in points], LEFT + 10, RIGHT - 6, spare=0.0) if len(points) > 1 else None
    parts = [words(LEFT, 14, title, "head"), across(up.ticks(), LEFT, RIGHT)]
    for at, side in ((RIGHT - 50, "A"), (RIGHT - 18, "B")):
        parts += [dot(at, 10, f"side{side}", f"side {side}"), words(at + 8, 14, side)]
    for one in points:
        x = along.at(one.number) if along else (LEFT + RIGHT) / 2
        parts.append(
            dot(x, up.at(one.value), f"side{one.side}", f"launch {one.number + 1}, {one.side}: {one.value:.4g}")
        )
    for side in ("A", "B"):
        own = [one.value for one in points if one.side == side]
        if own:
            y = up.at(sum(own) / len(own))
            parts.append(line((LEFT, y), (RIGHT, y), f"mean{side}"))
    parts.append(words((LEFT + RIGHT) / 2, HEIGHT - 12, "launches, in the order in which they ran", "", "middle"))
    return svg(HEIGHT, f"{title}: {len(points)} launches", "".join(parts))


def effects(title: str, rows: Sequence[Mapping[str, object]], margin: float) -> str:
    """A line for each row: its ``label``, ``word`` and ``said``, and ``effect``, ``low``, ``high`` as shares (0.05)."""
    known = [row for row in rows if isinstance(row.get("effect"), float)]
    values = [
        100 * value for row in known for name in ("effect", "low", "high") if isinstance(value := row.get(name), float)
    ]
    along = axis_of([*values, 100 * margin, -100 * margin], 96.0, RIGHT - 4, zero=True)
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
        parts.append(dot(at(100 * effect), y, kind, str(row["said"])))
    return parts
