"""Two sides, each measured in several launches: what differs, in every figure and level, and one verdict. Pure."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from statistics import fmean
from typing import Any, Final, Literal

from gb10.serving.benchmark.comparability import differences, doubts_of
from gb10.serving.benchmark.launch_line import MOST, LaunchLine, Result, SavedQuality
from gb10.serving.chart import Point
from gb10.serving.stats.comparison import Comparison, Launch, Outcome, Side, compare, sentence
from gb10.serving.stats.exact_tests import fisher


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure of a level. ``up`` and ``down`` say what a higher and a lower one of B means."""

    name: str
    title: str
    unit: str
    up: str = "faster"
    down: str = "slower"

    def word(self, outcome: Outcome) -> str:
        """The outcome in a person's word."""
        return {Outcome.HIGHER: self.up, Outcome.LOWER: self.down}.get(outcome, str(outcome))


FIGURES: Final = (
    Figure(name="steps_s", title="steps/s", unit="steps a second, of one stream"),
    Figure(name="tokens_per_step", title="tokens/step", unit="tokens a step", up="more", down="fewer"),
    Figure(name="tok_s", title="tok/s", unit="tokens a second, all streams"),
    Figure(name="first_token_s", title="first token, s", unit="seconds to the first token", up="slower", down="faster"),
)
SPEED: Final = ("steps_s", "tok_s")
"""The figures that the verdict of a whole comparison rests on."""


UNLIKELY: Final = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """Points of A and of B, of how many, and the probability of such points if both are equal."""

    judge: str
    points: tuple[int, int]
    of: tuple[int, int]
    p: float

    @property
    def worse(self) -> bool:
        """Whether B answers worse."""
        return self.p < UNLIKELY and self.points[1] / self.of[1] < self.points[0] / self.of[0]

    @property
    def words(self) -> str:
        """One sentence."""
        both = ", ".join(
            f"{side} {points} of {of}" for side, points, of in zip("AB", self.points, self.of, strict=True)
        )
        said = "B answers worse" if self.worse else "no difference that chance does not explain"
        return f"answers ({self.judge}): {both}: {said} (p = {self.p:.2g})"


def answers_of(a: Sequence[LaunchLine], b: Sequence[LaunchLine]) -> Answers | None:
    """Both sides' points, judged alike; None where that cannot be."""
    sides = [[one.quality for one in side if one.quality] for side in (a, b)]
    judges = {(one.judge, one.what) for side in sides for one in side}
    if not all(sides) or len(judges) != 1:
        return None
    (points_a, of_a), (points_b, of_b) = map(_points, sides)
    points, of = (points_a, points_b), (of_a, of_b)
    if sum(of) > MOST:  # the test below counts every way: a bundle of others may say anything
        return None
    return Answers(judge=judges.pop()[0], points=points, of=of, p=fisher(points, of))


def _points(found: Sequence[SavedQuality]) -> tuple[int, int]:
    """Canaries are new in every launch, so they add up. A judge asks the same again: one launch's worth counts."""
    if found[0].judge == "canaries":
        return sum(one.points for one in found), sum(one.of for one in found)
    return round(fmean(one.points for one in found)), max(one.of for one in found)


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


def compare_launches(
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
