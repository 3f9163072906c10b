"""The guard by kinds: answers that people ask for are no collapse, collapses with other tokens in them are seen."""

import pytest

from benches.guard.answers import ANSWERS, BAD, MORE, sentences, verdict_of
from benches.guard.collapse import WORDS, seeded
from gb10.image.plan.catalog import ROOT
from gb10.serving.guard.finding import Verdict
from gb10.serving.guard.limits import read_limits
from gb10.serving.guard.watch import Watch
from tests.hang import MOST, grown

LIMITS = read_limits((ROOT / "recipes/guard/limits.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("kind", ANSWERS)
def test_an_answer_that_people_ask_for_is_no_collapse(kind: str) -> None:
    found = [verdict_of(LIMITS, ANSWERS[kind](seeded(f"{kind} {seed}"))) for seed in (101, 103)]
    assert [one for one in found if one[0] in BAD] == []


@pytest.mark.parametrize("kind", MORE)
def test_a_collapse_is_seen_from_the_start_and_after_good_words(kind: str) -> None:
    rng = seeded(f"{kind} 101")
    bad = MORE[kind](rng)
    for good in ("", sentences(rng, 8)):
        verdict, _, at = verdict_of(LIMITS, good + bad)
        assert verdict in BAD
        if "loop" not in kind:
            assert at - len(good) <= 1600


def repeated_with(change: str) -> str:
    rng = seeded(change)
    if change == "a word":
        return "".join(
            f"The state of the case is the same as the {rng.choice(WORDS)} of the place. " for _ in range(60)
        )
    text = sentences(rng, 6)[:400]
    return "".join(f"{text} {rng.randrange(1000)}\n\n" for _ in range(12))


@pytest.mark.parametrize("change", ["a word", "a number"])
def test_a_text_that_nearly_repeats_is_a_suspect(change: str) -> None:
    assert verdict_of(LIMITS, repeated_with(change))[0] is Verdict.SUSPECT


@pytest.mark.parametrize("length", [1300, 5000, 30_000])
def test_a_loop_of_any_length_is_seen_at_its_fourth_repeat(length: int) -> None:
    text = (sentences(seeded(length), length // 50)[: length - 2] + "\n\n") * 6
    verdict, sign, at = verdict_of(LIMITS, text)
    assert (verdict, sign) == (Verdict.GARBAGE, "loop")
    assert at <= 4 * length + 2048


def test_the_cost_does_not_grow_with_the_text() -> None:
    text = sentences(seeded("cost"), 8000)

    def feed(like: str) -> None:
        watch = Watch(LIMITS)
        for at in range(0, len(like), 64):
            watch.feed(text[at : at + 64])

    assert grown(feed, " ", 30_000) <= MOST
