"""What launches of A and B say of one figure: higher, lower, the same, or nothing yet, in one sentence. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gb10.serving.stats.enough import MOST, needed
from gb10.serving.stats.launches import Launch, Ratio, block_ratios, floor_of, ratio
from gb10.serving.stats.modes import Modes, modes
from gb10.serving.stats.signed_ranks import FEWEST, signed_ranks

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
