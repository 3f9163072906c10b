"""Wilcoxon's signed ranks, exactly: a check that takes no normal noise for granted. Pure."""

from collections.abc import Sequence
from typing import Final

FEWEST: Final = 6
"""Blocks; fewer cannot say anything at 5 %."""


def signed_ranks(differences: Sequence[float]) -> float:
    """The two-sided probability of sums of ranks that are as uneven as these, or more; 1 when none differs."""
    found = sorted((one for one in differences if one), key=abs)
    ranks = [_doubled_rank(found, one) for one in found]
    above = sum(rank for rank, one in zip(ranks, found, strict=True) if one > 0)
    ways = {0: 1}
    for rank in ranks:
        taken = {total + rank: count for total, count in ways.items()}
        ways = {total: ways.get(total, 0) + taken.get(total, 0) for total in ways.keys() | taken.keys()}
    least = min(above, sum(ranks) - above)
    tail = sum(count for total, count in ways.items() if total <= least)
    return min(1.0, 2.0 * tail / sum(ways.values()))


def _doubled_rank(found: Sequence[float], one: float) -> int:
    """Twice the rank of a difference by its size; equal ones share the middle of their ranks."""
    below = sum(abs(other) < abs(one) for other in found)
    equal = sum(abs(other) == abs(one) for other in found)
    return 2 * below + equal + 1
