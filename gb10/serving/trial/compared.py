"""Two sides, each measured in several launches: what differs, in every figure and level, and one verdict. Pure."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, Final, Literal

from gb10.serving.chart.sides import Point
from gb10.serving.stats.comparison import Comparison, Outcome, compare, sentence
from gb10.serving.stats.launches import Launch, Side
from gb10.serving.trial.answers import Answers, answers_of
from gb10.serving.trial.comparability import differences, doubts_of
from gb10.serving.trial.compared_figures import FIGURES, SPEED, Figure
from gb10.serving.trial.launch_line import LaunchLine, Result

SCHEMA: Final = "gb10/compare/v1"
Unit = Literal["launches", "passes"]
"""A pass is another benchmark of a server that was not started again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One figure of one level."""

    concurrency: int
    figure: Figure
    points: tuple[Point, ...]
    found: Comparison
    words: str

    @property
    def word(self) -> str:
        """faster, slower, same, not resolved, …"""
        return self.figure.word(self.found.outcome)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A whole comparison of B against A."""

    names: tuple[str, str]
    unit: Unit
    margin: float
    launches: tuple[LaunchLine, ...]
    rows: tuple[Row, ...]

    def of(self, side: str) -> tuple[LaunchLine, ...]:
        """The launches of a side, in order."""
        return tuple(one for one in self.launches if one.name == side)

    @property
    def in_turn(self) -> bool:
        """Whether the sides changed places often enough for a drift to touch both."""
        names = [one.name for one in self.launches]
        return sum(one != two for one, two in pairwise(names)) >= min(names.count("A"), names.count("B"))

    @property
    def garbage(self) -> str:
        """The sentence of a side whose answers are bad; its speed means nothing."""
        bad = next((one for one in self.launches if one.result is Result.GARBAGE), None)
        return f"the answers of {bad.name} are GARBAGE: {bad.why}" if bad else ""

    @property
    def answers(self) -> Answers | None:
        """Right answers of both sides; None where a side has no points, or was judged by another."""
        return answers_of(self.of("A"), self.of("B"))

    @property
    def verdict(self) -> str:
        """faster, slower, same, not resolved, mixed: of steps/s and tok/s at all levels, unless answers are bad."""
        if self.garbage:
            return "garbage"
        if self.answers is not None and self.answers.worse:
            return "worse answers"
        words = {row.word for row in self.rows if row.figure.name in SPEED}
        speeds = words & {"faster", "slower"}
        if len(speeds) == 2:
            return "mixed"
        return speeds.pop() if speeds else "same" if words == {"same"} else "not resolved"

    @property
    def doubts(self) -> tuple[str, ...]:
        """What speaks against the figures of each side, and what differs between the sides besides their speed."""
        a, b = ([one.serve for one in self.of(side) if one.serve] for side in ("A", "B"))
        failed = [f"{one.name}, number {one.number + 1}, failed: {one.why}" for one in self.launches if not one.serve]
        turns = ["the sides did not run in turn: what drifted between them counts, too"] if not self.in_turn else []
        same = ["each side was started once: the next start may be as different"] if self.unit == "passes" else []
        return (*failed, *same, *turns, *doubts_of("A", a), *doubts_of("B", b), *differences(a, b))

    def document(self) -> dict[str, Any]:
        """The comparison as JSON: docs/schemas/compare-v1.schema.json."""
        return {
            "schema": SCHEMA,
            "unit": self.unit,
            "margin": self.margin,
            "sides": {side: _side(name, self.of(side)) for side, name in zip("AB", self.names, strict=True)},
            "rows": [_row(row) for row in self.rows],
            "answers": asdict(self.answers) | {"words": self.answers.words} if self.answers else None,
            "verdict": self.verdict,
            "why": self.garbage,
            "doubts": list(self.doubts),
            "unknown": list(dict.fromkeys(what for one in self.launches if one.serve for what in one.serve.unknown)),
        }


def compared(
    launches: Sequence[LaunchLine], names: tuple[str, str], *, margin: float, unit: Unit = "launches"
) -> Compared:
    """Compare the launches of "A" and "B", in the order in which they ran."""
    ordered = tuple(sorted(launches, key=lambda one: one.number))
    levels = sorted({level.concurrency for one in ordered if one.serve for level in one.serve.levels})
    rows = tuple(
        row
        for concurrency in levels
        for figure in FIGURES
        if (row := _compare(ordered, concurrency, figure, margin, unit))
    )
    return Compared(names=names, unit=unit, margin=margin, launches=ordered, rows=rows)


def _compare(ordered: Sequence[LaunchLine], concurrency: int, figure: Figure, margin: float, unit: Unit) -> Row | None:
    found: list[Launch] = []
    points: list[Point] = []
    for one in ordered:
        level = one.serve.level(concurrency) if one.serve and one.result is Result.STABLE else None
        value = level.figure(figure.name) if level else None
        if value is not None:
            side: Side = "A" if one.name == "A" else "B"
            found.append(Launch(side=side, block=one.block, value=value))
            points.append(Point(number=one.number, side=side, value=value))
    if not found:
        return None
    judged = compare(found, margin)
    words = f"{figure.title} at {concurrency}: {sentence(judged, figure.word(judged.outcome), unit)}"
    return Row(concurrency=concurrency, figure=figure, points=tuple(points), found=judged, words=words)


def _side(name: str, launches: Sequence[LaunchLine]) -> dict[str, Any]:
    first = next((one.serve for one in launches if one.serve), None)
    return {
        "name": name,
        "model": first.model if first else None,
        "settings": first.settings if first else {},
        "launches": [
            {
                "number": one.number,
                "block": one.block,
                "result": str(one.result),
                "why": one.why,
                "cause": one.cause,
                "seconds": one.seconds,
                "facts": one.facts,
                "started": one.serve.started if one.serve else None,
                "machine": one.serve.machine if one.serve else {},
            }
            for one in launches
        ],
    }


def _row(row: Row) -> dict[str, Any]:
    found = row.found
    ratio = found.ratio
    whole = ratio is not None and not math.isinf(ratio.half)
    return {
        "concurrency": row.concurrency,
        "figure": row.figure.name,
        "unit": row.figure.unit,
        "points": [asdict(point) for point in row.points],
        "effect": _share(ratio.effect) if ratio else None,
        "low": _share(ratio.effect - ratio.half) if ratio and whole else None,
        "high": _share(ratio.effect + ratio.half) if ratio and whole else None,
        "spread": ratio.spread if ratio and whole else None,
        "floor": _share(found.floor) if found.floor is not None else None,
        "modes": [asdict(one) if one else None for one in found.modes],
        "wilcoxon": found.check,
        "needed": found.needed,
        "outcome": str(found.outcome) if found.outcome is Outcome.NO_FIGURE else row.word,
        "words": row.words,
    }


def _share(log: float) -> float:
    return math.expm1(log)
