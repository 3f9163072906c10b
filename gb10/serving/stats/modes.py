"""Two modes: a server that starts in one of two speeds, whose mean no launch has. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

GAP: Final = 3.0
"""A gap that is so many times as wide as all others together parts two modes."""
CHANCE: Final = 0.01
"""Few launches lie like that by chance; the gap must be so wide that at most this share of evenly spread ones does."""
FEWEST: Final = 2
"""Launches of a mode: a single one is an outlier."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Modes:
    """The values of two modes, in order."""

    lower: tuple[float, ...]
    upper: tuple[float, ...]


def modes(values: Sequence[float], margin: float = 0.0) -> Modes | None:
    """The two modes of some launches; None when there is one, or when the gap is a share below ``margin``."""
    found = sorted(values)
    places = range(FEWEST, len(found) - FEWEST + 1)
    at = max(places, key=lambda place: found[place] - found[place - 1], default=None)
    if at is None or found[at] <= found[at - 1] * (1 + margin):
        return None
    gap = found[at] - found[at - 1]
    rest = found[-1] - found[0] - gap
    least = max(GAP, (len(places) / CHANCE) ** (1 / (len(found) - 2)) - 1)
    return Modes(lower=tuple(found[:at]), upper=tuple(found[at:])) if gap > least * rest else None
