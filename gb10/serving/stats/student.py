"""Student's t for whole degrees of freedom, exactly: its distribution is a finite sum of powers of a cosine. Pure."""

import math
from functools import cache
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
