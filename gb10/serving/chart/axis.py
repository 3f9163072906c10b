"""A straight axis: values become places on the paper, with round numbers beside it. Pure."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

STEPS: Final = (1, 2, 2.5, 5, 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """From ``low`` at the place ``start`` to ``high`` at the place ``end``."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """The place of a value."""
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self, most: int = 5) -> list[tuple[float, str]]:
        """The places of round numbers within it, ``most`` of them or fewer, each with its text."""
        rough = (self.high - self.low) / max(1, most - 1)
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(power * one for one in STEPS if power * one >= rough * (1 - 1e-9))
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [(self.at(number * step), _text(number * step, step)) for number in range(first, last + 1)]


def _text(value: float, step: float) -> str:
    """A number with as many digits as its step has: ``1,200``, ``107.5``, ``0.25``."""
    digits = next(digits for digits in range(16) if math.isclose(round(step, digits), step, rel_tol=1e-9))
    return f"{value + 0.0:,.{digits}f}"


def axis_of(values: Iterable[float], start: float, end: float, *, zero: bool = False, spare: float = 0.08) -> Axis:
    """An axis that all values fit on, with some room at the ends; with zero when ``zero`` says so."""
    found = [value for value in values if math.isfinite(value)] or [0.0, 1.0]
    low, high = min(found), max(found)
    if zero:
        low, high = min(0.0, low), max(0.0, high)
    room = (high - low or abs(high) or 1.0) * spare
    return Axis(low=low if zero and low == 0 else low - room, high=high + room, start=start, end=end)
