"""Right answers of two sides: whether B answers worse than chance explains. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from gb10.serving.stats.counts import fisher
from gb10.serving.trial.launch_line import MOST, LaunchLine, SavedQuality

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
