"""What launches of A and B say of one figure: higher, lower, the same, or nothing yet, in one sentence. Pure."""

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean
from typing import Final, Literal

from gb10.serving.stats.exact_tests import FEWEST, Modes, modes, quantile, signed_ranks

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


UNLIKELY: Final = 0.05


class Outcome(StrEnum):
    """Of B against A."""

    HIGHER = "higher"
    LOWER = "lower"
    SAME = "same"
    """The whole interval lies within the margin."""
    NOT_RESOLVED = "not resolved"
    BELOW_FLOOR = "below the floor"
    """The difference is no larger than what a side shows against itself."""
    TWO_MODES = "two modes"
    """A side starts in one of two speeds: their mean is the figure of neither."""
    NO_FIGURE = "no figure"
    """A side has no launch whose figure counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One figure of two sides."""

    outcome: Outcome
    launches: tuple[int, int]
    """Of A and of B."""
    ratio: Ratio | None = None
    floor: float | None = None
    """A logarithm."""
    modes: tuple[Modes | None, Modes | None] = (None, None)
    check: float | None = None
    """Wilcoxon's probability, from six blocks."""
    needed: int | None = None
    """Launches of each side that would resolve the difference, or the margin when that is larger."""
    margin: float = 0.0


def compare(launches: Sequence[Launch], margin: float) -> Comparison:
    """Judge the launches, in the order in which they ran. ``margin``: the share below which two sides are the same."""
    of = {side: [one.value for one in launches if one.side == side] for side in ("A", "B")}
    counts = (len(of["A"]), len(of["B"]))
    if not all(counts) or not block_ratios(launches):
        return Comparison(outcome=Outcome.NO_FIGURE, launches=counts)
    found, floor, ratios = ratio(launches), floor_of(launches), block_ratios(launches)
    both = (modes(of["A"], margin), modes(of["B"], margin))
    target = max(abs(found.effect), math.log1p(margin))
    return Comparison(
        outcome=_outcome(found, floor, both, math.log1p(margin)),
        launches=counts,
        ratio=found,
        floor=floor,
        modes=both,
        check=signed_ranks(ratios) if len(ratios) >= FEWEST else None,
        needed=needed(target, found.spread) if found.freedom else None,
        margin=margin,
    )


def _outcome(found: Ratio, floor: float | None, both: tuple[Modes | None, Modes | None], margin: float) -> Outcome:
    if any(both):
        return Outcome.TWO_MODES
    if found.within(margin):
        return Outcome.SAME
    if not found.resolved:
        return Outcome.NOT_RESOLVED
    if floor is not None and abs(found.effect) <= floor:
        return Outcome.BELOW_FLOOR
    return Outcome.HIGHER if found.effect > 0 else Outcome.LOWER


def percent(log: float) -> str:
    """``+5.1 %`` of a logarithm."""
    return f"{100 * math.expm1(log):+.1f} %"


def sentence(found: Comparison, word: str, unit: str = "launches") -> str:
    """``+7.0 % at 3 launches a side (95 %: -9.9 to +27.0 %): not resolved, 22 would``. ``word`` names the outcome."""
    if found.ratio is None:
        return "no figure: a side has no launch whose figure counts"
    effect, half = found.ratio.effect, found.ratio.half
    first = percent(effect)
    if math.isinf(half):
        return f"{first} at one of each: {word}, a single one does not say what the next will be"
    low, high = percent(effect - half).removesuffix(" %"), percent(effect + half)
    few, many = sorted(found.launches)
    counts = f"{few} {unit} a side" if few == many else f"{found.launches[0]} and {found.launches[1]} {unit}"
    return f"{first} at {counts} (95 %: {low} to {high}): {word}{_why(found, unit)}"


def _why(found: Comparison, unit: str) -> str:
    if found.outcome is Outcome.NOT_RESOLVED:
        count = f"{found.needed} would" if found.needed else f"more than {MOST:,} {unit} would"
        small = found.ratio is not None and abs(found.ratio.effect) < math.log1p(found.margin)
        return f", {count}{f' tell {100 * found.margin:g} %' if small else ''}"
    if found.outcome is Outcome.BELOW_FLOOR and found.floor is not None:
        return f": a side differs by {percent(found.floor).removeprefix('+')} from itself"
    if found.outcome is Outcome.TWO_MODES:
        return "".join(
            f", {side} has {_listed(one.lower)} and {_listed(one.upper)}"
            for side, one in zip("AB", found.modes, strict=True)
            if one
        )
    surprising = found.outcome is not Outcome.SAME and found.check is not None and found.check > UNLIKELY
    return f", but Wilcoxon's test does not agree (p = {found.check:.2f})" if surprising else ""


def _listed(values: Sequence[float]) -> str:
    return " ".join(f"{value:.4g}" for value in values)
