"""Figures of a load: what counts, and when there is no figure."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gb10.errors import UsageError
from gb10.serving.guard.finding import Verdict
from gb10.serving.load_generator.benchy import SMALLEST_BOOK, find_book
from gb10.serving.load_generator.canary_batch import CanaryBatch, guard_limits
from gb10.serving.load_generator.exchange import Exchange, Usage, flaws, summed
from gb10.serving.load_generator.results import Level, LoadRun, LoadStream, ServeResult, mean_of, place
from gb10.serving.load_generator.saved import judge_saved
from gb10.serving.load_generator.server_pages import ACCEPTED, DRAFTS, POSITION, ServerCounts, counter_gains
from gb10.serving.load_generator.stream_client import LONGEST, EventReader, TooLongError, message_of, payload
from gb10.serving.load_generator.validity import load_doubts, start_doubts, warm_up_doubt


def stream(
    tokens: int = 10, first: int = 1, steps: int = 5, decode: float = 2.0, wait: float | None = 1.0
) -> LoadStream:
    return LoadStream(
        verdict=Verdict.OK,
        why="",
        tokens=tokens,
        first_tokens=first,
        prompt_tokens=7,
        steps=steps,
        decode_s=decode,
        first_token_s=wait,
        characters=40,
    )


def run(*streams: LoadStream, decode: float = 2.0, warm_up: bool = False) -> LoadRun:
    return LoadRun(index=0, warm_up=warm_up, streams=streams, decode_s=decode)


@pytest.mark.parametrize(
    ("one", "figures"),
    [
        (run(stream(), stream(20, 2)), (13.5, 2.0, 3.0, 1.0)),
        (run(stream(), stream(steps=1), stream(wait=None)), (13.5, 2.0, 30 / 11, 1.0)),
        (run(stream(wait=1.0), stream(wait=4.0), stream(wait=2.0)), (13.5, 2.0, 2.0, 2.0)),
        (run(stream(1, 3), stream(3, 1)), (1.0, 2.0, 0.4, 1.0)),  # none of the first counts against the second
        (run(stream(), decode=0.0), (None, 2.0, 2.0, 1.0)),
        (run(stream(decode=0.0)), (4.5, None, 2.0, 1.0)),
        (run(stream(0, 0, 0, 0.0, None)), (None, None, None, None)),
        (run(), (None, None, None, None)),
    ],
)
def test_the_figures_of_a_run(one: LoadRun, figures: tuple[float | None, ...]) -> None:
    assert (one.tok_s, one.steps_s, one.tokens_per_step, one.first_token_s) == pytest.approx(figures)


def test_a_mean_needs_the_figure_of_every_run() -> None:
    assert mean_of([run(stream()), run(stream(20, 2))], "tok_s") == 6.75
    assert mean_of([run(stream()), run()], "tok_s") is None
    assert mean_of([], "tok_s") is None


def test_a_level_is_called_by_what_tells_it_from_the_others() -> None:
    assert place(2048, 4, several=True) == "2,048 tokens out, 4 at once"
    assert place(2048, 4, several=False) == "4 at once"


OK: dict[str, Any] = {"status": 200, "content_type": "text/event-stream", "done": True}


@pytest.mark.parametrize(
    ("exchange", "found"),
    [
        (Exchange(**OK), ()),
        (Exchange(**{**OK, "content_type": ""}), ("the content type is not text/event-stream (missing)",)),
        (Exchange(**{**OK, "content_type": "a/b"}), ("the content type is not text/event-stream (a/b)",)),
        (Exchange(status=500), ()),
        (Exchange(**OK, malformed=1, events=3), ("events are not readable (1 of 3)",)),
        (Exchange(**OK, late=2), ("events arrived after the end (2)",)),
        (Exchange(**OK, steps=1), ("the server sends no usage, so its tokens are not counted",)),
        (Exchange(**{**OK, "done": False}, steps=1), ()),
        (Exchange(**OK, steps=5, content="x" * 20, usage=Usage(completion=2)), ()),
        (
            Exchange(**OK, steps=6, content="x" * 20, usage=Usage(completion=2)),
            ("usage counts fewer tokens than there were events with text (2, 6)",),
        ),
        (Exchange(**OK, content="x", usage=Usage(completion=8)), ()),
        (
            Exchange(**OK, content="xx", usage=Usage(completion=9)),
            ("usage counts more tokens than the text can have (9, 2 characters)",),
        ),
        (Exchange(**OK, content="x", reasoning="xx", usage=Usage(completion=12)), ()),
        (Exchange(**OK, tool_calls=1, usage=Usage(completion=90)), ()),
    ],
)
def test_what_a_stream_claims_and_does_not_keep(exchange: Exchange, found: tuple[str, ...]) -> None:
    assert flaws(exchange) == found


def test_flaws_of_one_kind_are_one_sentence() -> None:
    assert summed([("a (1)",), (), ("a (2)", "b")]) == ("a (1): 2 of 3 streams", "b: 1 of 3 streams")
    assert summed([("a (1)", "c (1)")]) == ("a (1): 1 of 1 streams", "c (1): 1 of 1 streams")


@pytest.mark.parametrize(
    ("arrived", "rate"),
    [((), None), ((1.0,), None), ((1.0, 1.0), None), ((1.0, 1.5), 2.0), ((1.0, 1.5, 3.0), 1.0)],
)
def test_steps_a_second_need_time_between_two(arrived: tuple[float, ...], rate: float | None) -> None:
    assert Exchange(arrived=arrived).steps_per_second == rate
    assert Exchange(steps=2, usage=Usage(completion=0)).tokens_per_step is None
    assert Exchange(steps=0, usage=Usage(completion=4)).tokens_per_step is None


@pytest.mark.parametrize(
    ("load", "cores", "doubted"),
    [(1.0, 1, False), (1.1, 4, True), (5.0, 20, False), (5.1, 20, True), (1.5, None, True), (None, None, False)],
)
def test_load_is_doubted_above_a_quarter_of_the_cores(load: float | None, cores: int | None, doubted: bool) -> None:
    assert bool(start_doubts({"load_1min": load, "cores": cores}, None)) == doubted


def gpu(use: str, clock: str = "2000 MHz") -> dict[str, object]:
    return {"gpu": [{"utilization.gpu": use, "clocks.sm": clock}]}


def test_a_gpu_is_busy_or_uneven_only_past_its_limit() -> None:
    assert not start_doubts(gpu("10 %"), 0)
    assert start_doubts(gpu("11 %"), 0) == ("the GPU of this machine was busy before the first request",)
    assert not load_doubts([gpu("50 %"), gpu("50 %", "1900 MHz")], ServerCounts())
    assert load_doubts([gpu("50 %"), gpu("50 %", "1899 MHz")], ServerCounts())
    assert not load_doubts([gpu("50 %"), gpu("49 %", "1000 MHz")], ServerCounts())


@pytest.mark.parametrize(
    ("rates", "doubted"),
    [
        ([0.94, 1.0, 1.0], True),
        ([0.95, 1.0, 1.0], False),
        ([0.9, 0.9, 1.0, 1.0], False),
        ([0.5, 1.0], False),
        ([1.0, 0.5, 1.0], False),
        ([0.5, 1.0, 1.0, None], False),
    ],
)
def test_a_slow_first_run_is_doubted(rates: list[float | None], doubted: bool) -> None:
    runs = [run(stream(steps=3, decode=2 / rate)) if rate else run() for rate in rates]
    assert bool(warm_up_doubt([run(stream(decode=9.0), warm_up=True), *runs])) == doubted


def test_speculation_is_counted_by_draft_and_position() -> None:
    before = {(DRAFTS, ""): 10.0, (ACCEPTED, ""): 5.0, (POSITION, "0"): 4.0}
    after = {
        (DRAFTS, ""): 20.0,
        (ACCEPTED, ""): 13.0,
        (POSITION, "10"): 1.0,
        (POSITION, "0"): 9.0,
        (POSITION, "x"): 9.0,
    }
    assert counter_gains(before, after) == ServerCounts(tokens_per_draft=1.8, accepted=(0.5, 0.1))
    assert counter_gains(after, after) == ServerCounts()
    assert counter_gains({}, {(DRAFTS, ""): 4.0}) == ServerCounts(tokens_per_draft=1.0)


def test_saved_events_that_are_not_readable_are_counted() -> None:
    good = '{"choices": [{"delta": {"content": "Paris."}, "finish_reason": "stop"}]}'
    text = "\n".join([f"data: {good}", 'data: {"choices": 3}', 'data: {"choices": 4}', "data: [DONE]"])
    (found,) = judge_saved(text, guard_limits())
    last = found.judgement.findings[-1]
    assert (last.what, last.at, last.onset) == ("2 of 3 events are not readable", 0, 0)
    (found,) = judge_saved(f"data: {good}\ndata:[DONE]", guard_limits())
    assert found.judgement.verdict is Verdict.OK


def test_half_of_the_lines_must_be_objects_or_it_is_text() -> None:
    line = json.dumps({"text": "Paris is a city."})
    names = {count: judge_saved("\n".join([line, *["prose"] * count]), guard_limits())[0].name for count in (2, 3)}
    assert names[3] == "text"
    assert names[2] != "text"


def test_a_book_has_enough_text(tmp_path: Path) -> None:
    book = tmp_path / "book.txt"
    book.write_text("é" * SMALLEST_BOOK, encoding="utf-8")
    assert find_book(book, {}).text == "é" * SMALLEST_BOOK
    book.write_text("é" * (SMALLEST_BOOK - 1), encoding="utf-8")
    with pytest.raises(UsageError, match="the book has 19,999 characters"):
        find_book(book, {})


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ({"error": {"message": " out of\nmemory "}}, "out of memory"),
        ({"error": "busy"}, "busy"),
        ({"message": "m"}, "m"),
        ({"error": {}}, "{'error': {}}"),
        ({"error": "x" * 400}, "x" * 300),
    ],
)
def test_the_text_of_an_error_in_the_forms_of_servers(said: dict[str, object], text: str) -> None:
    assert message_of(said) == text


@pytest.mark.parametrize(("more", "refused"), [(0, False), (1, True)])
def test_an_event_is_bounded_over_its_lines(more: int, refused: bool) -> None:
    line = b"data:" + b"x" * 1000 + b"\n"
    reader = EventReader()
    assert list(reader.feed(line)) == []
    rest = b"x" * (LONGEST - 1001 + more)  # the first line counts without its name, and with its end
    if refused:
        with pytest.raises(TooLongError):
            list(reader.feed(rest))
    else:
        assert list(reader.feed(rest)) == []
        assert list(reader.feed(b"\n\n" + line + b"\n")) == ["x" * 1000] * 2  # each event by itself


@pytest.mark.parametrize(("answers", "name"), [((64,), "2 at once"), ((64, 128), "64 tokens out, 2 at once")])
def test_a_result_names_a_level_by_what_its_levels_differ_in(answers: tuple[int, ...], name: str) -> None:
    levels = tuple(Level(answer=answer, concurrency=2, canaries=(), verdict=Verdict.OK, why="") for answer in answers)
    result = ServeResult(
        run_id="",
        started="",
        endpoint="",
        model="",
        boot="",
        settings={},
        machine={},
        at_start=("cold",),
        unknown=(),
        server={},
        alone=CanaryBatch(answers=(), judgements=(), exchanges=()),
        levels=(replace(levels[0], doubts=("hot", "hot")), *levels[1:]),
    )
    assert result.place(levels[0]) == name
    assert result.doubts == ("cold", f"{name}: hot")
    assert result.lengths == answers


def test_a_request_is_streamed_with_its_usage_and_takes_more_of_a_server() -> None:
    plain = payload("m", "p", 5)
    assert plain["stream_options"] == {"include_usage": True}
    assert (plain["stream"], plain["temperature"], plain["max_tokens"]) == (True, 0, 5)
    assert payload("m", "p", 5, {"seed": 1, "temperature": 1}) == {**plain, "seed": 1, "temperature": 1}
