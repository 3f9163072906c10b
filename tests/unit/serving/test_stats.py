"""Statistics against SciPy's, which we did not write, and against simulated servers whose truth is known."""

import math
from random import Random

import numpy as np
import pytest
import scipy

from benches.guard.collapse import seeded
from gb10.serving.stats.comparison import (
    Launch,
    Outcome,
    block_ratios,
    compare,
    floor_of,
    freedom_of,
    needed,
    ratio,
    schedule,
    sentence,
    smallest,
)
from gb10.serving.stats.exact_tests import fisher, modes, quantile, signed_ranks, within

TABLE = {3: 3.07, 5: 2.02, 8: 1.51, 12: 1.20, 20: 0.91}
"""The smallest difference that so many launches find in 8 of 10 comparisons, in coefficients of variation."""
BOOT, RUN, RUNS = 0.03, 0.05, 3
MARGIN = 0.02


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 5, 8, 17, 30, 101, 1998])
def test_students_t_is_scipys(freedom: int) -> None:
    for share in (0.6, 0.8, 0.9, 0.975, 0.9995):
        assert quantile(share, freedom) == pytest.approx(scipy.special.stdtrit(freedom, share), rel=1e-9)
    for t in (0.0, 0.1, 1.0, 2.5, 40.0):
        assert within(t, freedom) == pytest.approx(2 * scipy.special.stdtr(freedom, t) - 1, abs=1e-12)


@pytest.mark.parametrize("count", [6, 7, 10, 15])
def test_signed_ranks_are_scipys(count: int) -> None:
    rng = seeded(count)
    for shift in (-0.5, 0.0, 1.5):
        differences = [rng.gauss(shift, 1) for _ in range(count)]
        theirs = scipy.stats.wilcoxon(differences, method="exact").pvalue
        assert signed_ranks(differences) == pytest.approx(theirs, abs=1e-12)


def test_signed_ranks_share_the_ranks_of_equal_differences() -> None:
    assert signed_ranks([1, 1, 1, 1, 1, 1]) == pytest.approx(2 / 64)
    assert signed_ranks([1, -1, 1, -1, 0, 0]) == pytest.approx(1)
    assert signed_ranks([]) == 1


@pytest.mark.parametrize(
    ("right", "of"), [((40, 30), (40, 40)), ((0, 5), (8, 9)), ((3, 3), (3, 3)), ((1, 9), (10, 200)), ((0, 0), (4, 6))]
)
def test_fishers_test_is_scipys(right: tuple[int, int], of: tuple[int, int]) -> None:
    table = [[one, all_ - one] for one, all_ in zip(right, of, strict=True)]
    assert fisher(right, of) == pytest.approx(scipy.stats.fisher_exact(table).pvalue, rel=1e-9)


def launched(rng: Random, count: int, effect: float, boot: float, *, run: float = 0.0, runs: int = 1) -> list[Launch]:
    """Launches whose truth is known: noise of the launch, and of the runs in it; ``effect`` is a logarithm."""

    def one(side: str) -> float:
        level = rng.gauss(effect if side == "B" else 0.0, boot)
        return sum(30 * math.exp(level + rng.gauss(0, run)) for _ in range(runs)) / runs

    return [Launch(side=side, block=block, value=one(side)) for side, block in schedule(count)]


@pytest.mark.parametrize("count", [2, 3, 5, 8])
def test_the_ratio_is_least_squares_over_sides_and_blocks(count: int) -> None:
    found = launched(seeded(count), count, 0.05, 0.03)
    blocks = sorted({one.block for one in found})
    design = np.array([[one.side == "B", *(one.block == block for block in blocks)] for one in found], dtype=float)
    logs = np.array([one.log for one in found])
    fitted, left, _, _ = np.linalg.lstsq(design, logs, rcond=None)
    freedom = len(found) - len(blocks) - 1
    error = math.sqrt(float(left[0]) / freedom * np.linalg.inv(design.T @ design)[0, 0])
    ours = ratio(found)
    assert ours.effect == pytest.approx(fitted[0])
    assert ours.freedom == freedom == freedom_of(count)
    assert ours.half == pytest.approx(float(scipy.special.stdtrit(freedom, 0.975)) * error)


def test_one_block_is_the_t_test_of_two_samples() -> None:
    found = [Launch(side=one.side, block=0, value=one.value) for one in launched(seeded(1), 4, 0.1, 0.05)]
    a, b = ([one.log for one in found if one.side == side] for side in "AB")
    low, high = scipy.stats.ttest_ind(b, a).confidence_interval(0.95)
    ours = ratio(found)
    assert (ours.effect - ours.half, ours.effect + ours.half) == pytest.approx((low, high))


def test_launches_that_failed_leave_the_others_to_be_compared() -> None:
    found = launched(seeded(2), 5, 0.1, 0.01)
    assert ratio(found[1:]).effect == pytest.approx(0.1, abs=0.03)
    assert compare([one for one in found if one.side == "A"], MARGIN).outcome is Outcome.NO_FIGURE


def test_the_order_takes_out_an_even_drift() -> None:
    order = schedule(4)
    assert "".join(side for side, _ in order) == "ABBAABBA"
    drifting = [Launch(side=s, block=b, value=30 * 1.01**number) for number, (s, b) in enumerate(order)]
    assert ratio(drifting).effect == pytest.approx(0, abs=1e-12)
    assert floor_of(drifting) == pytest.approx(2 * math.log(1.01))
    assert [block for _, block in schedule(5)] == [0] * 4 + [1] * 6


def test_too_many_false_differences_are_not_found() -> None:
    rng, found = seeded(11), []
    for _ in range(400):
        found.append(compare(launched(rng, 5, 0.0, BOOT, run=RUN, runs=RUNS), MARGIN).outcome)
    assert found.count(Outcome.HIGHER) <= 0.07 * 400
    assert found.count(Outcome.HIGHER) + found.count(Outcome.LOWER) <= 0.07 * 400


@pytest.mark.parametrize("count", TABLE)
def test_the_power_is_that_of_the_table(count: int) -> None:
    variation, rng = 0.013, seeded(count)
    effect = TABLE[count] * variation
    found = [compare(launched(rng, count, effect, variation), 0.0).outcome for _ in range(600)]
    assert found.count(Outcome.HIGHER) / 600 == pytest.approx(0.8, abs=0.05)
    assert smallest(count, variation) == pytest.approx(effect, rel=0.06)


def test_steps_a_second_find_what_tokens_a_second_hide() -> None:
    rng, steps, tokens = seeded(3), [], []
    for _ in range(200):
        rate = launched(rng, 5, math.log(1.05), 0.013)
        luck = launched(rng, 5, 0.0, 0.046)
        steps.append(compare(rate, MARGIN).outcome)
        both = [
            Launch(side=one.side, block=one.block, value=one.value * other.value)
            for one, other in zip(rate, luck, strict=True)
        ]
        tokens.append(compare(both, MARGIN).outcome)
    assert steps.count(Outcome.HIGHER) >= 195
    assert tokens.count(Outcome.NOT_RESOLVED) >= 130


def test_seven_percent_need_twenty_two_launches_of_eight_percent() -> None:
    assert needed(0.07, 0.08) == 22
    assert needed(0.0001, 0.08) is None
    assert [needed(smallest(count, 0.08), 0.08) for count in (2, 3, 999, 1000)] == [2, 3, 999, 1000]
    assert math.isinf(smallest(1, 0.08))


def test_two_modes_are_shown_and_not_averaged() -> None:
    two = [29.6, 29.9, 48.3, 29.7, 48.6, 48.4]
    found = modes(two)
    assert found is not None
    assert (found.lower, found.upper) == ((29.6, 29.7, 29.9), (48.3, 48.4, 48.6))
    assert modes([29.6, 29.7, 29.9, 48.3]) is None  # one launch is an outlier
    assert modes([30.0, 30.1, 31.0, 31.1]) is None  # by chance
    assert modes([]) is None
    sides = schedule(6)
    mixed = iter(two)
    launches = [Launch(side=s, block=b, value=next(mixed) if s == "B" else 30 + b / 100) for s, b in sides]
    compared = compare(launches, MARGIN)
    assert compared.outcome is Outcome.TWO_MODES
    assert "B has 29.6 29.7 29.9 and 48.3 48.4 48.6" in sentence(compared, "two modes")


def test_what_is_no_larger_than_a_side_against_itself_is_refused() -> None:
    steady = launched(seeded(6), 40, 0.02, 0.02)
    assert compare(steady, 0.0).outcome is Outcome.HIGHER
    warming = [  # the second half of each block is 5 % faster
        Launch(side=one.side, block=one.block, value=one.value * (1.05 if number % 4 > 1 else 1))
        for number, one in enumerate(steady)
    ]
    compared = compare(warming, 0.0)
    assert compared.ratio is not None
    assert compared.ratio.resolved
    assert compared.outcome is Outcome.BELOW_FLOOR
    assert "below the floor: a side differs by 4.6 % from itself" in sentence(compared, compared.outcome)


SENTENCES = [
    (3, 0.07, "+7.3 % at 3 launches a side (95 %: -10.8 to +29.0 %): not resolved, 23 would"),
    (5, 0.05, "+5.1 % at 5 launches a side (95 %: +4.2 to +6.0 %): higher"),
    (1, 0.07, "+7.3 % at one of each: not resolved, a single one does not say what the next will be"),
    (4, 0.001, "+0.1 % at 4 launches a side (95 %: -1.0 to +1.3 %): same"),
]


@pytest.mark.parametrize(("count", "effect", "words"), SENTENCES)
def test_one_sentence_says_it(count: int, effect: float, words: str) -> None:
    spread = {3: 0.0705, 5: 0.005, 1: 0.0, 4: 0.005}[count]
    wave = [spread * (1 if number % 4 < 2 else -1) for number in range(2 * count)]
    exact = [
        Launch(side=side, block=block, value=30 * math.exp(noise + (effect if side == "B" else 0)))
        for (side, block), noise in zip(schedule(count), wave, strict=True)
    ]
    compared = compare(exact, MARGIN)
    assert sentence(compared, compared.outcome) == words


def test_a_ratio_of_blocks_needs_both_sides() -> None:
    found = [Launch(side="A", block=0, value=10), Launch(side="A", block=1, value=10)]
    assert block_ratios([*found, Launch(side="B", block=1, value=11)]) == [pytest.approx(math.log(1.1))]
