"""A figure by the number of requests at once: runs as dots, means as a line, what others published as crosses. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gb10.serving.chart.axis import axis_of
from gb10.serving.chart.drawing import WIDTH, across, dot, line, path, svg, words

LEFT, RIGHT, TOP, BOTTOM, HEIGHT = 52.0, WIDTH - 14.0, 26.0, 170.0, 204.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A level: requests at once, and the figure of each run."""

    concurrency: int
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What somebody published for a level."""

    concurrency: int
    value: float
    said: str


def levels(title: str, measured: Sequence[Measured], marks: Sequence[Mark] = ()) -> str:
    """The levels from left to right, on a scale of doublings."""
    counts = sorted({one.concurrency for one in measured} | {one.concurrency for one in marks})
    along = axis_of([math.log2(count) for count in counts], LEFT + 12, RIGHT, spare=0.02)
    up = axis_of(
        [*(value for one in measured for value in one.values), *(one.value for one in marks)], BOTTOM, TOP, zero=True
    )
    parts = [words(LEFT, 14, title, "head"), across(up.ticks(), LEFT, RIGHT)]
    parts += [words(along.at(math.log2(count)), BOTTOM + 16, str(count), "", "middle") for count in counts]
    parts.append(words((LEFT + RIGHT) / 2, HEIGHT - 4, "requests at once", "", "middle"))
    means = [(along.at(math.log2(one.concurrency)), up.at(sum(one.values) / len(one.values))) for one in measured]
    parts.append(path(means, "meanline"))
    parts += [_cross(along.at(math.log2(one.concurrency)), up.at(one.value), one.said) for one in marks]
    for one in measured:
        parts += [
            dot(along.at(math.log2(one.concurrency)), up.at(value), "sideA", f"{one.concurrency} at once: {value:.4g}")
            for value in one.values
        ]
    return svg(HEIGHT, title, "".join(parts))


def _cross(x: float, y: float, said: str) -> str:
    inside = dot(x, y, "unseen", said)
    return line((x - 5, y - 5), (x + 5, y + 5), "mark") + line((x - 5, y + 5), (x + 5, y - 5), "mark") + inside
