"""Rows of a matrix as bars, coloured by how each came out. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from gb10.serving.chart.axis import axis_of
from gb10.serving.chart.drawing import WIDTH, box, down, svg, words

LEFT, RIGHT, STEP = 8.0, WIDTH - 8.0, 34.0
LONGEST = 52
"""Characters of a name that fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A row: STABLE, FAIL or GARBAGE, and its figure when it has one."""

    name: str
    result: str
    value: float | None
    said: str


def bars(title: str, rows: Sequence[Bar]) -> str:
    """A bar below each name, the longest first; rows without a figure say why they have none."""
    ordered = sorted(rows, key=lambda one: (one.value is None, -(one.value or 0.0)))
    along = axis_of([one.value or 0.0 for one in rows], LEFT, RIGHT - 44, zero=True)
    height = 46.0 + STEP * len(ordered)
    parts = [words(LEFT, 14, title, "head"), down(along.ticks(4), 24, height - 18)]
    for number, one in enumerate(ordered):
        y = 38.0 + STEP * number
        name = one.name if len(one.name) <= LONGEST else f"{one.name[: LONGEST - 1]}…"
        parts.append(words(LEFT, y, name))
        if one.value is None:
            parts.append(words(LEFT, y + 15, one.result, one.result.lower()))
        else:
            parts.append(box(LEFT, y + 4, (along.at(one.value) - LEFT, 12), one.result.lower(), one.said))
            parts.append(words(along.at(one.value) + 4, y + 14, f"{one.value:.4g}"))
    return svg(height, f"{title}: {len(rows)} rows", "".join(parts))
