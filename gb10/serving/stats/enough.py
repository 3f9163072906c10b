"""How many launches a difference needs, before they are made. Pure."""

import math
from bisect import bisect_left
from typing import Final

from gb10.serving.stats.launches import LEVEL
from gb10.serving.stats.student import quantile

POWER: Final = 0.8
MOST: Final = 1000


def freedom_of(launches: int) -> int:
    """The degrees of freedom of so many launches of each side, in the blocks of ``schedule``."""
    return 2 * launches - max(1, launches // 2) - 1


def smallest(launches: int, spread: float) -> float:
    """The smallest difference (a logarithm) that as many launches of each side find in 8 of 10 comparisons."""
    freedom = freedom_of(launches)
    if freedom < 1:
        return math.inf
    steps = quantile(0.5 + LEVEL / 2, freedom) + quantile(POWER, freedom)
    return steps * math.sqrt(2 / launches) * spread


def needed(difference: float, spread: float) -> int | None:
    """The fewest launches of each side that find a difference (a logarithm); None for more than MOST."""
    counts = range(2, MOST + 2)
    found = counts[bisect_left(counts, -abs(difference), key=lambda count: -smallest(count, spread), hi=MOST - 1)]
    return found if found <= MOST else None
