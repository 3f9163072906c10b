"""Canaries and the events they arrive in: a nonce and a fact, judged as models write them."""

import pytest

from benches.guard.collapse import SALADS, collapsed, seeded
from gb10.errors import UsageError
from gb10.image.plan.catalog import ROOT
from gb10.serving.guard.canary import Answered, Canary, CanaryAnswer, judge_canary, make_canaries, read_facts
from gb10.serving.guard.delta import Heard, heard

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
        assert answer(canary, text).answered is Answered.RIGHT


def test_a_number_inside_the_nonce_is_no_fact_and_an_echo_is_no_answer() -> None:
    canary = Canary(nonce="amber-4711-basil", fact=next(fact for fact in FACTS if "4" in fact.accept))
    assert answer(canary, "amber-4711-basil").answered is Answered.WRONG
    assert answer(canary, "4").answered is Answered.WRONG
    assert answer(canary, "amber-4711-basil 4").answered is Answered.RIGHT
    assert answer(EIGHT[0], EIGHT[0].prompt()).answered is Answered.WRONG


def test_another_requests_nonce_is_cross_talk_even_beside_a_right_answer() -> None:
    right = f"{EIGHT[0].nonce} {EIGHT[0].fact.accept[0]}"
    found = answer(EIGHT[0], f"{right} {EIGHT[3].nonce}")
    assert (found.answered, found.other) == (Answered.CROSSED, EIGHT[3].nonce)
    assert answer(EIGHT[1], right).answered is Answered.CROSSED


def test_a_model_that_still_reasons_is_unfinished_and_a_broken_stream_has_failed() -> None:
    assert answer(EIGHT[0], "", f"I must copy {EIGHT[0].nonce}", "length").answered is Answered.UNFINISHED
    assert answer(EIGHT[0], "", "hmm", "length").answered is Answered.WRONG
    failed = judge_canary(EIGHT[0], "", "", None, [], failed=True)
    assert failed.answered is Answered.FAILED


@pytest.mark.parametrize("kind", SALADS)
def test_salad_and_soup_have_neither_nonce_nor_cross_talk(kind: str) -> None:
    for seed in range(20):
        text = "".join(collapsed("", 0, SALADS[kind], seeded(seed), 400))
        assert {answer(canary, text).answered for canary in EIGHT} == {Answered.WRONG}


@pytest.mark.parametrize("text", ["", "fact = 3", "[[fact]]\nask = 'x'", "[[fact]]\nask = ''\naccept = ['a']", "["])
def test_facts_are_read_strictly(text: str) -> None:
    with pytest.raises(UsageError):
        read_facts(text)


def event(**delta: object) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        (event(content="Hi"), Heard(content="Hi")),
        (event(role="assistant", content=None), Heard()),
        (event(reasoning="so"), Heard(reasoning="so", spelling="reasoning")),
        (event(reasoning_content="so"), Heard(reasoning="so", spelling="reasoning_content")),
        (event(reasoning="so", reasoning_content="so"), Heard(reasoning="so", spelling="both")),
        (event(content=[{"type": "text", "text": "Hi"}]), Heard(content="Hi")),
        (event(tool_calls=[{"index": 0}]), Heard(tool_calls=1)),
        ({"choices": [{"text": "Hi", "finish_reason": "stop"}]}, Heard(content="Hi", finish_reason="stop")),
        ({"choices": [{"message": {"content": "Hi"}}]}, Heard(content="Hi")),
    ],
)
def test_every_form_of_an_event_is_read(said: dict[str, object], wanted: Heard) -> None:
    assert list(heard(said)) == [wanted]


@pytest.mark.parametrize("said", [{"choices": 3}, {"choices": [3]}, event(content=3), {"choices": [{"delta": [1]}]}])
def test_what_is_no_event_is_an_error(said: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="no "):
        list(heard(said))


def test_an_event_without_choices_says_nothing() -> None:
    assert list(heard({"usage": {"completion_tokens": 3}, "choices": []})) == []
    assert list(heard({"error": {"message": "out of memory"}})) == []
