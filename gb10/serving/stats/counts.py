"""Whether two counts of right answers differ by more than chance: Fisher's exact test. Pure."""

from math import comb


def fisher(right: tuple[int, int], of: tuple[int, int]) -> float:
    """The two-sided probability of counts that are as unlikely as these, or less likely, if both sides are equal."""
    hits, total = sum(right), sum(of)
    whole = comb(total, hits)
    ways = [comb(of[0], one) * comb(of[1], hits - one) for one in range(max(0, hits - of[1]), min(of[0], hits) + 1)]
    found = comb(of[0], right[0]) * comb(of[1], right[1])
    return sum(way for way in ways if way <= found) / whole
