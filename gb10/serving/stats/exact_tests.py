"""Exact tests of few samples: Student's t, Wilcoxon's signed ranks, Fisher's counts, two modes. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import comb
from typing import Final

STEPS: Final = 60
"""Halvings of an interval of angles: as many as a float has digits."""


def within(t: float, freedom: int) -> float:
    """The probability of a value between -t and t (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    return _within(math.atan(abs(t) / math.sqrt(freedom)), freedom)


@cache
def quantile(share: float, freedom: int) -> float:
    """The t below which ``share`` of all values lie; ``share`` is above a half."""
    low, high = 0.0, math.pi / 2
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, freedom) < 2 * share - 1 else (low, middle)
    return math.tan(low) * math.sqrt(freedom)


def _within(angle: float, freedom: int) -> float:
    sine, cosine, odd = math.sin(angle), math.cos(angle), freedom % 2
    term, total = (cosine if odd else 1.0), 0.0
    for power in range(odd, freedom - 1, 2):
        total += term
        term *= cosine * cosine * (power + 1) / (power + 2)
    return 2 / math.pi * (angle + sine * total) if odd else sine * total


FEWEST: Final = 6
"""Blocks; fewer cannot say anything at 5 %."""


def signed_ranks(differences: Sequence[float]) -> float:
    """The two-sided probability of sums of ranks that are as uneven as these, or more; 1 when none differs."""
    found = sorted((one for one in differences if one), key=abs)
    # Twice the rank of each by its size: equal ones share the middle of their ranks.
    ranks = [sum((abs(two) < abs(one)) + (abs(two) <= abs(one)) for two in found) + 1 for one in found]
    above = sum(rank for rank, one in zip(ranks, found, strict=True) if one > 0)
    ways = {0: 1}
    for rank in ranks:
        with_rank = {total + rank: count for total, count in ways.items()}
        ways = {total: ways.get(total, 0) + with_rank.get(total, 0) for total in ways.keys() | with_rank.keys()}
    least = min(above, sum(ranks) - above)
    tail = sum(count for total, count in ways.items() if total <= least)
    return min(1.0, 2.0 * tail / sum(ways.values()))


def fisher(right: tuple[int, int], of: tuple[int, int]) -> float:
    """The two-sided probability of counts that are as unlikely as these, or less likely, if both sides are equal."""
    hits, total = sum(right), sum(of)
    whole = comb(total, hits)
    ways = [comb(of[0], one) * comb(of[1], hits - one) for one in range(max(0, hits - of[1]), min(of[0], hits) + 1)]
    found = comb(of[0], right[0]) * comb(of[1], right[1])
    return sum(way for way in ways if way <= found) / whole


GAP: Final = 3.0
"""A gap that is so many times as wide as all others together parts two modes."""
CHANCE: Final = 0.01
"""Few launches lie like that by chance; the gap must be so wide that at most this share of evenly spread ones does."""
FEWEST_OF_A_MODE: Final = 2
"""Launches of a mode: a single one is an outlier."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Modes:
    """The values of two modes, in order."""

    lower: tuple[float, ...]
    upper: tuple[float, ...]


def modes(values: Sequence[float], margin: float = 0.0) -> Modes | None:
    """The two modes of some launches; None when there is one, or when the gap is a share below ``margin``."""
    found = sorted(values)
    places = range(FEWEST_OF_A_MODE, len(found) - FEWEST_OF_A_MODE + 1)
    at = max(places, key=lambda place: found[place] - found[place - 1], default=None)
    if at is None or found[at] <= found[at - 1] * (1 + margin):
        return None
    gap = found[at] - found[at - 1]
    rest = found[-1] - found[0] - gap
    least = max(GAP, (len(places) / CHANCE) ** (1 / (len(found) - 2)) - 1)
    return Modes(lower=tuple(found[:at]), upper=tuple(found[at:])) if gap > least * rest else None
