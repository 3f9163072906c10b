"""What one event of an OpenAI-compatible stream says, and what the guard makes of the way in which a stream ends."""

import pytest

from gb10.image.plan.catalog import ROOT
from gb10.serving.guard.delta import Delta, parse_delta
from gb10.serving.guard.finding import Ending, Verdict, worst
from gb10.serving.guard.judging import KEPT, StreamWatch
from gb10.serving.guard.limits import read_limits

LIMITS = read_limits((ROOT / "recipes/guard/limits.toml").read_text(encoding="utf-8"))


def one(**choice: object) -> Delta:
    [found] = parse_delta({"choices": [choice]})
    return found


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        ({"delta": {"content": "a"}}, Delta(content="a")),
        ({"delta": {"content": None}, "finish_reason": "stop"}, Delta(finish_reason="stop")),
        ({"text": "a", "index": 3}, Delta(content="a", index=3)),
        ({"message": {"content": "a"}}, Delta(content="a")),
        ({"delta": {"content": [{"type": "text", "text": "a"}, {"text": "b"}, {}]}}, Delta(content="ab")),
        ({"delta": {"reasoning": "a"}}, Delta(reasoning="a", spelling="reasoning")),
        ({"delta": {"reasoning_content": "a"}}, Delta(reasoning="a", spelling="reasoning_content")),
        ({"delta": {"reasoning": "a", "reasoning_content": "a"}}, Delta(reasoning="a", spelling="both")),
        (
            {"delta": {"reasoning": "b", "reasoning_content": "a"}},
            Delta(reasoning="ab", spelling="reasoning_content+reasoning"),
        ),
        ({"delta": {"tool_calls": [{}, {}]}}, Delta(tool_calls=2)),
        ({"delta": {"tool_calls": None}, "index": "x", "finish_reason": 7}, Delta()),
        ({}, Delta()),
    ],
)
def test_what_a_choice_says(choice: dict[str, object], said: Delta) -> None:
    assert one(**choice) == said


def test_each_choice_is_heard_and_none_without_choices() -> None:
    assert [said.content for said in parse_delta({"choices": [{"text": "a"}, {"text": "b"}]})] == ["a", "b"]
    assert list(parse_delta({})) == list(parse_delta({"choices": None})) == list(parse_delta({"choices": []})) == []


@pytest.mark.parametrize(
    ("event", "problem"),
    [
        ({"choices": "x"}, "`choices` is no list"),
        ({"choices": ["x"]}, "a choice is no object"),
        ({"choices": [{"delta": "x"}]}, "`delta` is no object"),
        ({"choices": [{"delta": {"content": 7}}]}, "`content` is no text"),
        ({"choices": [{"delta": {"reasoning": ["x"]}}]}, "`reasoning` is no text"),
    ],
)
def test_an_event_of_another_shape_is_refused(event: dict[str, object], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        list(parse_delta(event))


@pytest.mark.parametrize(
    ("content", "reasoning", "ending", "signs"),
    [
        ("a", "", Ending(finish_reason="stop", done=True), []),
        ("", "", Ending(finish_reason="stop", done=True), ["empty"]),
        ("  \n", "", Ending(finish_reason="stop", done=True), ["empty"]),
        ("", "", None, ["empty"]),
        ("a", "", None, []),
        ("", "", Ending(finish_reason="tool_calls", done=True, tool_calls=1), []),
        ("", "a", Ending(finish_reason="stop", done=True), ["unanswered"]),
        ("", "a", Ending(finish_reason="length", done=True), []),
        ("", "a", Ending(finish_reason="stop", done=True, tool_calls=1), []),
        ("b", "a", Ending(finish_reason="stop", done=True), []),
        ("a", "", Ending(finish_reason="stop"), ["cut"]),
        ("a", "", Ending(done=True), ["cut"]),
        ("", "", Ending(), ["cut"]),
        ("", "", Ending(error="out of memory"), ["error"]),
        ("", "a", None, []),
    ],
)
def test_how_a_stream_ends(content: str, reasoning: str, ending: Ending | None, signs: list[str]) -> None:
    watch = StreamWatch(LIMITS)
    watch.feed(reasoning, "reasoning")
    watch.feed(content)
    judgement = watch.judge(ending)
    assert [finding.sign for finding in judgement.findings] == signs
    assert judgement.characters == len(content) + len(reasoning)


@pytest.mark.parametrize(
    ("ending", "what"),
    [
        (Ending(), "without finish reason and [DONE]"),
        (Ending(done=True), "without finish reason"),
        (Ending(finish_reason="stop"), "without [DONE]"),
    ],
)
def test_a_cut_stream_names_what_is_missing(ending: Ending, what: str) -> None:
    watch = StreamWatch(LIMITS)
    watch.feed("text")
    [finding] = watch.judge(ending).findings
    assert finding.what.endswith(what)
    assert (finding.verdict, finding.at, finding.onset) == (Verdict.CUT, 0, 0)


def test_the_first_characters_of_a_stream_are_kept() -> None:
    watch = StreamWatch(LIMITS)
    for piece in ("a" * (KEPT - 2), "bcd", "e"):
        watch.feed(piece)
    assert watch.text == "a" * (KEPT - 2) + "bc"


def test_verdicts_have_an_order_and_a_meaning() -> None:
    assert worst([]) is Verdict.OK
    assert worst([Verdict.CUT, Verdict.GARBAGE, Verdict.LOOP]) is Verdict.GARBAGE
    assert [verdict for verdict in Verdict if not verdict.bad] == [Verdict.OK, Verdict.SUSPECT, Verdict.LOOP]
