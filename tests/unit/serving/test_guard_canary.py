"""Canaries and the events they arrive in: a nonce and a fact, judged as models write them."""

import pytest

from benches.guard.collapse import SALADS, collapsed, seeded
from gb10.errors import UsageError
from gb10.image.plan.catalog import ROOT
from gb10.serving.guard.canary import AnswerKind, Canary, CanaryAnswer, judge_canary, make_canaries, read_facts
from gb10.serving.guard.delta import Delta, parse_delta

FACTS = read_facts((ROOT / "recipes/guard/facts.toml").read_text(encoding="utf-8"))
EIGHT = make_canaries(8, FACTS, "test")


def answer(canary: Canary, text: str, reasoning: str = "", finish: str | None = "stop") -> CanaryAnswer:
    return judge_canary(canary, text, reasoning, finish, [one.nonce for one in EIGHT])


def test_canaries_of_a_batch_differ_and_a_seed_gives_the_same() -> None:
    assert len({canary.nonce for canary in EIGHT}) == len({canary.fact.ask for canary in EIGHT}) == 8
    assert make_canaries(8, FACTS, "test") == EIGHT
    assert not {canary.nonce for canary in make_canaries(8, FACTS, "next")} & {canary.nonce for canary in EIGHT}
    assert len({canary.nonce for canary in make_canaries(100, FACTS, "many")}) == 100
    assert EIGHT[0].nonce in EIGHT[0].prompt()


@pytest.mark.parametrize("form", ["{n}\n{f}.", "Code: **{n}**\n\nThe answer is {f}!", "`{N}` {F}", "{u} - {f}"])
def test_right_answers_in_the_forms_of_models(form: str) -> None:
    for canary in EIGHT:
        nonce, fact = canary.nonce, canary.fact.accept[0]
        text = form.format(n=nonce, N=nonce.upper(), f=fact, F=fact.upper(), u=nonce.replace("-", "\u2011"))
        assert answer(canary, text).answered is AnswerKind.RIGHT


def test_a_number_inside_the_nonce_is_no_fact_and_an_echo_is_no_answer() -> None:
    canary = Canary(nonce="amber-4711-basil", fact=next(fact for fact in FACTS if "4" in fact.accept))
    assert answer(canary, "amber-4711-basil").answered is AnswerKind.WRONG
    assert answer(canary, "4").answered is AnswerKind.WRONG
    assert answer(canary, "amber-4711-basil 4").answered is AnswerKind.RIGHT
    assert answer(EIGHT[0], EIGHT[0].prompt()).answered is AnswerKind.WRONG


def test_another_requests_nonce_is_cross_talk_even_beside_a_right_answer() -> None:
    right = f"{EIGHT[0].nonce} {EIGHT[0].fact.accept[0]}"
    found = answer(EIGHT[0], f"{right} {EIGHT[3].nonce}")
    assert (found.answered, found.other) == (AnswerKind.CROSSED, EIGHT[3].nonce)
    assert answer(EIGHT[1], right).answered is AnswerKind.CROSSED


def test_a_model_that_still_reasons_is_unfinished_and_a_broken_stream_has_failed() -> None:
    assert answer(EIGHT[0], "", f"I must copy {EIGHT[0].nonce}", "length").answered is AnswerKind.UNFINISHED
    assert answer(EIGHT[0], "", "hmm", "length").answered is AnswerKind.WRONG
    failed = judge_canary(EIGHT[0], "", "", None, [], failed=True)
    assert failed.answered is AnswerKind.FAILED


@pytest.mark.parametrize("kind", SALADS)
def test_salad_and_soup_have_neither_nonce_nor_cross_talk(kind: str) -> None:
    for seed in range(20):
        text = "".join(collapsed("", 0, SALADS[kind], seeded(seed), 400))
        assert {answer(canary, text).answered for canary in EIGHT} == {AnswerKind.WRONG}


@pytest.mark.parametrize("text", ["", "fact = 3", "[[fact]]\nask = 'x'", "[[fact]]\nask = ''\naccept = ['a']", "["])
def test_facts_are_read_strictly(text: str) -> None:
    with pytest.raises(UsageError):
        read_facts(text)


def event(**delta: object) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        (event(content="Hi"), Delta(content="Hi")),
        (event(role="assistant", content=None), Delta()),
        (event(reasoning="so"), Delta(reasoning="so", spelling="reasoning")),
        (event(reasoning_content="so"), Delta(reasoning="so", spelling="reasoning_content")),
        (event(reasoning="so", reasoning_content="so"), Delta(reasoning="so", spelling="both")),
        (event(content=[{"type": "text", "text": "Hi"}]), Delta(content="Hi")),
        (event(tool_calls=[{"index": 0}]), Delta(tool_calls=1)),
        ({"choices": [{"text": "Hi", "finish_reason": "stop"}]}, Delta(content="Hi", finish_reason="stop")),
        ({"choices": [{"message": {"content": "Hi"}}]}, Delta(content="Hi")),
    ],
)
def test_every_form_of_an_event_is_read(said: dict[str, object], wanted: Delta) -> None:
    assert list(parse_delta(said)) == [wanted]


@pytest.mark.parametrize("said", [{"choices": 3}, {"choices": [3]}, event(content=3), {"choices": [{"delta": [1]}]}])
def test_what_is_no_event_is_an_error(said: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="no "):
        list(parse_delta(said))


def test_an_event_without_choices_says_nothing() -> None:
    assert list(parse_delta({"usage": {"completion_tokens": 3}, "choices": []})) == []
    assert list(parse_delta({"error": {"message": "out of memory"}})) == []
