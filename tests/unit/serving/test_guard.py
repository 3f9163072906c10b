"""The guard: collapses are seen, real text is not, streams that end badly are told, limits are read strictly."""

from dataclasses import replace

import pytest

from benches.guard.collapse import COLLAPSES, SALADS, WORDS, collapsed, seeded
from gb10.errors import UsageError
from gb10.image.plan.catalog import ROOT
from gb10.serving.guard.batch import alike, judged_together, lockstep
from gb10.serving.guard.finding import Ending, Finding, Judgement, Verdict, worst
from gb10.serving.guard.judging import StreamWatch
from gb10.serving.guard.limits import Limits, read_limits

TEXT = (ROOT / "recipes/guard/limits.toml").read_text(encoding="utf-8")
LIMITS = read_limits(TEXT)
GOOD = (ROOT / "docs/build.md").read_text(encoding="utf-8")
STOPPED = Ending(finish_reason="stop", done=True)


def judged(text: str, ending: Ending | None = STOPPED, *, step: int = 5, limits: Limits = LIMITS) -> Judgement:
    watch = StreamWatch(limits)
    for at in range(0, len(text), step):
        watch.feed(text[at : at + step])
    return watch.judge(ending)


def at_once(streams: list[list[str]]) -> list[StreamWatch]:
    """Watches of a batch, fed in turn, a token each."""
    watches = [StreamWatch(LIMITS) for _ in streams]
    for place in range(max(map(len, streams))):
        for watch, tokens in zip(watches, streams, strict=True):
            watch.feed("".join(tokens[place : place + 1]))
    return watches


@pytest.mark.parametrize("batch", [1, 8])
@pytest.mark.parametrize("onset", [0, 60])
@pytest.mark.parametrize("kind", COLLAPSES)
def test_each_collapse_is_seen_at_each_onset_and_batch(kind: str, onset: int, batch: int) -> None:
    rngs = [seeded(f"{kind}{onset}{batch}{place}") for place in range(batch)]
    streams = [collapsed(GOOD[2 * place :], onset, COLLAPSES[kind], rng, 1600) for place, rng in enumerate(rngs)]
    found = [watch.judge() for watch in at_once(streams)]
    assert {judgement.verdict for judgement in found} <= {Verdict.GARBAGE, Verdict.LOOP}, found


def test_one_collapsed_stream_of_eight_is_the_one_that_is_named() -> None:
    good = [[GOOD[start : start + 3000]] for start in range(0, 8000, 1000)]
    good[5] = collapsed("", 0, COLLAPSES["!"], seeded(0), 3072)
    verdicts = [watch.judge(STOPPED).verdict for watch in at_once(good)]
    assert verdicts == [Verdict.OK] * 5 + [Verdict.GARBAGE] + [Verdict.OK] * 2


@pytest.mark.parametrize("token", ["!", "0", "的", "\0", " the"])
def test_a_short_flood_from_the_first_character_is_seen_when_it_ends(token: str) -> None:
    assert judged(token * (64 // len(token) + 1)).verdict is Verdict.GARBAGE


def test_a_flood_is_seen_while_it_arrives_and_says_where() -> None:
    watch = StreamWatch(LIMITS)
    watch.feed(GOOD[:100], "reasoning")
    for _ in range(400):
        watch.feed("!", "reasoning")
    assert watch.sure is not None
    assert (watch.sure.sign, watch.sure.channel) == ("flood", "reasoning")
    assert watch.sure.onset == 100
    assert watch.sure.at <= 100 + LIMITS.flood + 64


@pytest.mark.parametrize("step", [1, 3, 64, 1000, 100_000])
def test_the_verdict_does_not_depend_on_how_the_text_is_cut(step: int) -> None:
    text = GOOD[:500] + "?" * 400
    assert judged(text, step=step).findings == judged(text).findings


def test_a_loop_after_a_good_start_is_the_models_own_unless_canaries_are_wrong() -> None:
    text = GOOD[:600] + GOOD[600:720] * 12
    judgement = judged(text)
    assert judgement.verdict is Verdict.LOOP
    assert "120 characters repeats" in judgement.why
    (kept,) = judged_together([judgement], [text], LIMITS, canaries_right=True)
    (blamed,) = judged_together([judgement], [text], LIMITS, canaries_right=False)
    assert (kept.verdict, blamed.verdict) == (Verdict.LOOP, Verdict.GARBAGE)
    assert judged(GOOD[600:720] * 12).verdict is Verdict.GARBAGE


def test_a_server_that_must_go_on_after_the_end_is_not_blamed_for_repetition() -> None:
    watch = StreamWatch(LIMITS, forced=True)
    watch.feed(GOOD[:600] + "\n<eos>" * 100)
    assert watch.judge(STOPPED).verdict is Verdict.LOOP


def test_a_counting_loop_and_few_words_are_only_suspects() -> None:
    counting = "\n".join(f"Step {number}: repeat the step before." for number in range(100))
    dozen = "".join(collapsed("", 0, SALADS["soup of a dozen tokens"], seeded(1), 3000))
    for text in (counting, dozen):
        judgement = judged(text)
        assert judgement.verdict is Verdict.SUSPECT, judgement
        assert judgement.findings


@pytest.mark.parametrize(
    "pattern", ["docs/*.md", "gb10/image/plan/*.py", "recipes/**/*.yaml", "LICENSE", "recipes/*/*.json"]
)
def test_our_own_pages_code_and_locks_are_not_garbage(pattern: str) -> None:
    for path in ROOT.glob(pattern):
        text = path.read_text(encoding="utf-8")[:20_000]
        assert judged(text).verdict not in (Verdict.GARBAGE, Verdict.LOOP), path


def test_a_drawn_line_and_a_table_are_not_garbage() -> None:
    assert judged(f"{GOOD[:200]}\n{'-' * 120}\n| a | b |\n|{'-' * 60}|{'-' * 60}|\n").verdict is Verdict.OK


@pytest.mark.parametrize(
    ("text", "ending", "verdict"),
    [
        ("", STOPPED, Verdict.EMPTY),
        (" \n\t", STOPPED, Verdict.EMPTY),
        ("", replace(STOPPED, finish_reason="tool_calls", tool_calls=1), Verdict.OK),
        ("Paris.", STOPPED, Verdict.OK),
        ("Paris.", Ending(finish_reason="stop"), Verdict.CUT),
        ("Paris.", Ending(done=True), Verdict.CUT),
        ("Paris.", None, Verdict.OK),
        ("Paris.", Ending(error="CUDA error: an illegal memory access"), Verdict.ERROR),
        ("", Ending(error="connection reset"), Verdict.ERROR),
        ("!" * 300, Ending(error="connection reset"), Verdict.GARBAGE),
    ],
)
def test_the_end_of_a_stream_counts(text: str, ending: Ending | None, verdict: Verdict) -> None:
    assert judged(text, ending).verdict is verdict


def test_reasoning_without_an_answer_is_a_suspect_and_text_enough() -> None:
    watch = StreamWatch(LIMITS)
    watch.feed("The user wants to know the capital.", "reasoning")
    assert watch.judge(STOPPED).verdict is Verdict.SUSPECT
    watch = StreamWatch(LIMITS)
    watch.feed("The user wants to know the capital.", "reasoning")
    assert watch.judge(replace(STOPPED, finish_reason="length")).verdict is Verdict.OK


def test_identical_answers_to_different_prompts_are_garbage_and_a_shared_preamble_is_not() -> None:
    shared = "Certainly! Here is what I can tell you about this:\n"
    different = [shared + GOOD[start : start + 400] for start in (0, 2000)]
    assert alike(different, LIMITS) == {}
    same = [GOOD[:500], GOOD[:480], GOOD[3000:3500], "no", "no"]
    assert set(alike(same, LIMITS)) == {0, 1}
    judged_ = judged_together([judged(text) for text in same], same, LIMITS, canaries_right=None)
    assert [one.verdict for one in judged_] == [Verdict.GARBAGE, Verdict.GARBAGE, *[Verdict.OK] * 3]
    assert "stream 2" in judged_[0].why


def test_two_equal_answers_of_eight_may_have_had_nearly_one_prompt() -> None:
    texts = [GOOD[:400], GOOD[:400], *(GOOD[start : start + 400] for start in range(1000, 7000, 1000))]
    assert {finding.verdict for finding in alike(texts, LIMITS).values()} == {Verdict.SUSPECT}
    assert {finding.verdict for finding in alike([*texts[:3], GOOD[:400]], LIMITS).values()} == {Verdict.GARBAGE}


def test_lockstep_is_a_hint() -> None:
    assert "lockstep" in lockstep([256] * 8, ["length"] * 8, [14.276, 14.277] * 4)
    assert lockstep([256] * 8, ["length"] * 8, [14.2, 14.9] * 4) == ""
    assert lockstep([256, 255] * 4, ["length"] * 8, [14.2] * 8) == ""
    assert lockstep([256] * 2, ["length"] * 2, [14.2] * 2) == ""


def test_word_salad_is_not_seen_in_text() -> None:
    """Why canaries exist; should this ever fail, docs/guard.md is out of date."""
    salad = "".join(collapsed("", 0, SALADS["word salad"], seeded(2), 3000))
    assert judged(salad).verdict is Verdict.OK
    assert set(salad.split()) <= set(WORDS)


def test_verdicts_have_an_order_and_say_which_are_bad() -> None:
    assert worst([Verdict.LOOP, Verdict.CUT]) is Verdict.LOOP
    assert worst([]) is Verdict.OK
    assert [verdict for verdict in Verdict if not verdict.bad] == [Verdict.OK, Verdict.SUSPECT, Verdict.LOOP]
    assert Judgement(verdict=Verdict.OK).why == ""
    finding = Finding(verdict=Verdict.SUSPECT, sign="words", at=1, onset=0, what="few words")
    assert Judgement(verdict=Verdict.SUSPECT, findings=(finding,)).why == "few words"


@pytest.mark.parametrize(
    "text",
    [f"{TEXT}\nfloods = 3", TEXT.replace("loop = 900", ""), TEXT.replace("loop = 900", 'loop = "900"'), "loop ="],
)
def test_limits_are_read_strictly(text: str) -> None:
    with pytest.raises(UsageError):
        read_limits(text)


def test_the_window_is_the_longest_stretch_that_a_sign_looks_at() -> None:
    small = replace(LIMITS, loop_unit=3, loop_times=4, flood_drawn=1, few_window=1, zipped_window=1)
    assert small.window == 13
    assert replace(small, flood_drawn=14).window == 14
    assert replace(small, few_window=15).window == 15
    assert replace(small, zipped_window=16).window == 16
