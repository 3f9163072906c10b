"""Launches of two servers in the order in which they ran, and what they say of the ratio of the two. Pure.

The launch is the unit: runs of one launch are averaged before. Launches run in blocks of four, A B B A, so that what
drifts evenly touches both sides alike; the levels of the blocks are taken out (A B and block are the two ways of a
two-way layout without interaction). All sums are of logarithms: the result is a ratio.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final, Literal

from gb10.serving.stats.student import quantile

Side = Literal["A", "B"]
PATTERN: Final[tuple[Side, ...]] = ("A", "B", "B", "A")
LEVEL: Final = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One figure of one launch: the mean of its runs."""

    side: Side
    block: int
    value: float

    @property
    def log(self) -> float:
        """Its natural logarithm."""
        return math.log(self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """B against A. ``effect``, ``half`` and ``spread`` are of natural logarithms: 0.05 is some 5 %."""

    effect: float
    half: float
    """Half of the interval of 95 %; infinite for a single launch of each."""
    spread: float
    """The standard deviation of launches of one side, within blocks."""
    freedom: int

    @property
    def resolved(self) -> bool:
        """Whether the interval leaves out "no difference"."""
        return abs(self.effect) > self.half

    def within(self, margin: float) -> bool:
        """Whether the whole interval lies between -margin and +margin."""
        return abs(self.effect) + self.half < margin


def schedule(launches: int) -> tuple[tuple[Side, int], ...]:
    """Sides and blocks of so many launches of each side: A B B A, A B B A, …; two that are left join the last block."""
    blocks = max(1, launches // 2)
    return tuple((PATTERN[number % 4], min(number // 4, blocks - 1)) for number in range(2 * launches))


def ratio(launches: Sequence[Launch]) -> Ratio:
    """The effect and its interval; every side has a launch in some block that the other has one in, too."""
    blocks = sorted({one.block for one in launches})
    of = {block: [one for one in launches if one.block == block] for block in blocks}
    leaning = [_centred([float(one.side == "B") for one in of[block]]) for block in blocks]
    logs = [_centred([one.log for one in of[block]]) for block in blocks]
    pairs = [pair for x, y in zip(leaning, logs, strict=True) for pair in zip(x, y, strict=True)]
    weight = sum(x * x for x, _ in pairs)
    effect = sum(x * y for x, y in pairs) / weight
    freedom = len(launches) - len(blocks) - 1
    if freedom < 1:
        return Ratio(effect=effect, half=math.inf, spread=math.nan, freedom=0)
    spread = math.sqrt(sum((y - effect * x) ** 2 for x, y in pairs) / freedom)
    half = quantile(0.5 + LEVEL / 2, freedom) * spread / math.sqrt(weight)
    return Ratio(effect=effect, half=half, spread=spread, freedom=freedom)


def _centred(values: Sequence[float]) -> list[float]:
    mean = fmean(values)
    return [value - mean for value in values]


def floor_of(launches: Sequence[Launch]) -> float | None:
    """How much a side differs from itself: in each block, its later launch against its earlier one, over both sides.

    What a comparison calls a difference must be larger. A logarithm; None when no side has two launches in a block.
    """
    places = {(one.block, one.side) for one in launches}
    found: list[float] = []
    for block, side in sorted(places):
        logs = [one.log for one in launches if one.block == block and one.side == side]
        found += [later - earlier for earlier, later in zip(logs[::2], logs[1::2], strict=False)]
    return abs(fmean(found)) if found else None


def block_ratios(launches: Iterable[Launch]) -> list[float]:
    """The logarithm of B over A of each block that has both."""
    logs: dict[int, dict[Side, list[float]]] = {}
    for one in launches:
        logs.setdefault(one.block, {}).setdefault(one.side, []).append(one.log)
    return [fmean(of["B"]) - fmean(of["A"]) for of in logs.values() if len(of) == 2]
