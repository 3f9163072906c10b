"""llama-benchy's progress becomes runs with figures and verdicts; the document of a benchmark follows its schema."""

import json

import jsonschema
import pytest

from gb10.errors import UsageError
from gb10.image.plan.catalog import ROOT
from gb10.serving.guard.canary import AnswerKind, Canary, CanaryAnswer, Fact
from gb10.serving.guard.finding import Judgement, Verdict
from gb10.serving.load_generator.bench_endpoint import level_verdict
from gb10.serving.load_generator.benchy import Shape, arguments, find_book, find_tokenizer
from gb10.serving.load_generator.canary_batch import CanaryBatch, at_least, canary_verdict, guard_limits, merge_batches
from gb10.serving.load_generator.endpoint import Endpoint, base_url
from gb10.serving.load_generator.exchange import Exchange
from gb10.serving.load_generator.load_progress import SCHEMA, Progress
from gb10.serving.load_generator.results import Level, ServeResult, mean_of
from gb10.serving.load_generator.saved import judge_saved

LIMITS = guard_limits()
PROSE = (ROOT / "docs/run.md").read_text(encoding="utf-8")
FIELDS = {"top_p": 0.9, "seed": "x", "chat_template_kwargs": {"enable_thinking": False, "a": [1, 2]}}
RESULT_SCHEMA = json.loads((ROOT / "docs/schemas/serve-v1.schema.json").read_text(encoding="utf-8"))


def line(kind: str, number: int | None, ts: float, **fields: object) -> str:
    own = {} if number is None else {"request_id": number}
    return json.dumps({"schema": SCHEMA, "type": kind, "ts": ts, **own, **fields}, separators=(",", ":"))


def start(number: int, run: int, ts: float) -> str:
    return line("request_start", number, ts, run_index=run, concurrency=2, prompt_size=9, response_size=9)


def stream(number: int, run: int, text: str, *, began: float = 0.0, per: int = 1, error: str = "") -> list[str]:
    """A stream of pieces of five characters, ten a second, from half a second after its request."""
    pieces = [text[at : at + 5] for at in range(0, len(text), 5)]
    tokens = [
        line("tokens", number, began + 0.5 + at / 10, count=per, snippet=piece) for at, piece in enumerate(pieces)
    ]
    end = line("request_end", number, began + 99, total_tokens=per * len(pieces), prompt_tokens=9, error=error)
    return [start(number, run, began), *tokens, end]


def read(*lines: str, forced: bool = False) -> Progress:
    progress = Progress(LIMITS, forced=forced)
    for one in ("llama-benchy (0.4.0)", '{"schema": "another"}', *lines):
        progress.feed(one)
    return progress


def test_a_run_without_any_token_took_no_time_to_decode() -> None:
    (run,) = read(start(0, 0, 5.0), line("request_end", 0, 9.0, total_tokens=0, prompt_tokens=9, error="")).runs(
        0, canaries_right=True
    )
    assert run.decode_s == 0.0
    assert [(one.decode_s, one.first_token_s, one.steps) for one in run.streams] == [(0.0, None, 0)]


def test_runs_have_the_figures_of_their_streams_and_warm_up_is_apart() -> None:
    both = (*stream(0, 0, PROSE[:100]), *stream(1, 1, PROSE[:105], per=3), *stream(2, 1, PROSE[500:605], per=3))
    first, second = read(*both, line("bench_complete", None, 9, status="ok")).runs(1, canaries_right=True)
    assert (first.warm_up, second.warm_up) == (True, False)
    assert second.steps_s == pytest.approx(10)
    assert second.tokens_per_step == 3
    assert second.tok_s == pytest.approx(2 * 60 / 2.0)
    assert second.first_token_s == pytest.approx(0.5)
    assert {one.verdict for one in (*first.streams, *second.streams)} == {Verdict.OK}
    assert mean_of([first, second], "steps_s") == pytest.approx(10)
    assert mean_of([], "tok_s") is None


def test_a_flood_is_known_while_it_runs_and_after_it() -> None:
    progress = read(*stream(0, 0, PROSE[:400]), *stream(1, 0, "!" * 400)[:-1])
    assert progress.sure is not None
    (run,) = progress.runs(0, canaries_right=None)
    assert [one.verdict for one in run.streams] == [Verdict.OK, Verdict.GARBAGE]


def test_equal_answers_errors_and_a_stopped_stream() -> None:
    lines = (*stream(0, 0, PROSE[:400]), *stream(1, 0, PROSE[:400]), *stream(2, 0, "a", error="HTTP 500"))
    (run,) = read(*lines, start(3, 0, 0.0)).runs(0, canaries_right=None)
    assert [one.verdict for one in run.streams] == [Verdict.GARBAGE, Verdict.GARBAGE, Verdict.ERROR, Verdict.ERROR]
    assert run.streams[3].first_token_s is None


def test_lines_that_are_broken_are_noted() -> None:
    assert read(f'{{"schema":"{SCHEMA}","type":"tokens"').status == "unreadable"
    assert read(line("tokens", 7, 1.0, count=1, snippet="x")).status == "unreadable"


def canaries(*answered: AnswerKind, touched: bool = True) -> CanaryBatch:
    canary = Canary(nonce="amber-1000-basil", fact=Fact(ask="?", accept=("x",)))
    answers = tuple(
        CanaryAnswer(canary=canary, answered=one, nonce=touched, fact=one is AnswerKind.RIGHT) for one in answered
    )
    return CanaryBatch(
        answers=answers,
        judgements=tuple(Judgement(verdict=Verdict.OK) for _ in answered),
        exchanges=tuple(Exchange() for _ in answered),
    )


R, W, X, U = AnswerKind.RIGHT, AnswerKind.WRONG, AnswerKind.CROSSED, AnswerKind.UNFINISHED


@pytest.mark.parametrize(
    ("batch", "alone", "verdict"),
    [
        ([R] * 8, [R] * 8, Verdict.OK),
        ([R] * 7 + [W], [R] * 8, Verdict.SUSPECT),
        ([R] * 4 + [W] * 4, [R] * 8, Verdict.GARBAGE),
        ([R] * 63 + [W], [R] * 8, Verdict.SUSPECT),
        ([R] * 7 + [W], [R] * 7 + [W], Verdict.SUSPECT),
        ([W] * 8, [R] + [W] * 7, Verdict.SUSPECT),
        ([W] * 8, [R] * 5 + [W] * 3, Verdict.GARBAGE),
        ([W] * 8, [W] * 8, Verdict.SUSPECT),
        ([R] * 7 + [X], [W] * 8, Verdict.GARBAGE),
        ([U] * 8, [U] * 8, Verdict.SUSPECT),
        ([R], [R] * 8, Verdict.OK),
    ],
)
def test_a_batch_of_canaries_is_held_against_canaries_alone(
    batch: list[AnswerKind], alone: list[AnswerKind], verdict: Verdict
) -> None:
    found, why = canary_verdict(canaries(*batch), canaries(*alone))
    assert found is verdict
    assert bool(why) is (verdict is not Verdict.OK)


def test_answers_that_depend_on_no_prompt_are_garbage_even_if_they_always_were() -> None:
    found, why = canary_verdict(canaries(W, touched=False), canaries(*[W] * 8, touched=False))
    assert found is Verdict.GARBAGE
    assert why == "9 of 9 canaries have neither code nor answer, one at a time or together"


def test_one_answer_without_code_and_fact_is_garbage_where_alone_all_had_one() -> None:
    batch = merge_batches([canaries(*[R] * 63), canaries(W, touched=False)])
    assert canary_verdict(batch, canaries(*[R] * 7, W))[0] is Verdict.GARBAGE
    alone = merge_batches([canaries(*[R] * 7), canaries(W, touched=False)])
    assert canary_verdict(batch, alone)[0] is Verdict.SUSPECT


def test_a_model_that_is_seldom_right_alone_may_miss_code_and_fact_now_and_then() -> None:
    weak, missed = canaries(*[W] * 4), canaries(W, W, touched=False)
    assert canary_verdict(merge_batches([canaries(*[W] * 6), missed]), weak)[0] is Verdict.SUSPECT
    assert canary_verdict(merge_batches([canaries(*[W] * 2), *[missed] * 3]), weak)[0] is Verdict.GARBAGE


def test_the_binomial_is_right() -> None:
    assert at_least(4, 8, 0.1) == pytest.approx(0.00502, abs=1e-5)
    assert at_least(0, 8, 0.1) == pytest.approx(1)


def test_a_level_needs_all_its_runs() -> None:
    runs = tuple(read(*stream(0, 0, PROSE[:100])).runs(0, canaries_right=True))
    assert level_verdict(runs, [(Verdict.OK, "")], None, 1) == (Verdict.OK, "")
    assert level_verdict(runs, [(Verdict.OK, "")], None, 2)[0] is Verdict.ERROR
    sure = read(*stream(1, 0, "!" * 400)).sure
    assert "flood in a stream" in level_verdict(runs, [(Verdict.GARBAGE, "canary")], sure, 2)[1]


def test_the_document_follows_its_schema() -> None:
    runs = tuple(read(*stream(0, 0, PROSE[:100]), *stream(1, 1, PROSE[:100])).runs(1, canaries_right=True))
    batch = canaries(R, W)
    level = Level(
        answer=50, concurrency=1, runs=runs, canaries=(batch, batch), verdict=Verdict.SUSPECT, why="1 of 2 wrong"
    )
    settings = dict.fromkeys(
        ("prompt", "answer", "depth", "runs", "warm_up", "exact", "canary_tokens", "tool", "tool_version"), 1
    )
    machine = dict.fromkeys(RESULT_SCHEMA["properties"]["machine"]["required"], "x")
    served = ServeResult(
        run_id="a" * 32,
        started="2026-01-02T03:04:05Z",
        endpoint="http://a/v1",
        model="m",
        boot="b",
        settings={
            **settings,
            "concurrency": [1],
            "extra": {},
            "tokenizer": "0" * 64,
            "book": {"name": "n", "sha256": "0"},
        },
        machine=machine,
        at_start=("other programs ran",),
        unknown=(),
        server={"vLLM": {"version": "0.33.0"}},
        alone=merge_batches([batch]),
        levels=(level,),
    )
    document = json.loads(json.dumps(served.document()))
    jsonschema.validate(document, RESULT_SCHEMA)
    assert document["levels"][0]["canaries"][0]["answers"] == {"right": 1, "wrong": 1}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document | {"verdict": "GOOD"}, RESULT_SCHEMA)


def test_the_command_line_of_the_load_has_no_key() -> None:
    shape = Shape(prompt=1, answer=2, depth=3, concurrency=4, runs=5, exact=True, extra=FIELDS)
    endpoint = Endpoint(url="http://a/v1", model="m", key="sesame")
    argv = arguments(endpoint, shape, ROOT / "tokenizer.json", ROOT / "result.json")
    text = " ".join(argv)
    assert "sesame" not in text
    assert "--pp 1 --tg 2 --depth 3 --concurrency 4 --runs 5 --no-warmup --skip-coherence" in text
    assert argv[-3:-1] == ("--exact-tg", "--extra-body")
    assert json.loads(argv[-1]) == FIELDS


def test_book_and_tokenizer_are_found_or_asked_for(tmp_path_factory: pytest.TempPathFactory) -> None:
    home = tmp_path_factory.mktemp("home")
    env = {"HOME": str(home)}
    assert find_book(None, env).name == "gb10's documentation"
    assert len(find_book(None, env).sha256) == 64
    small = home / "small.txt"
    small.write_text("too little", encoding="utf-8")
    for path in (small, home / "none"):
        with pytest.raises(UsageError, match="book"):
            find_book(path, env)
    with pytest.raises(UsageError, match="no tokenizer for a/b"):
        find_tokenizer(None, "a/b", env)
    snapshot = home / ".cache/huggingface/hub/models--a--b/snapshots/0/tokenizer.json"
    snapshot.parent.mkdir(parents=True)
    snapshot.write_text("{}", encoding="utf-8")
    assert find_tokenizer(None, "a/b", env) == find_tokenizer(snapshot.parent, "x", env) == snapshot
    with pytest.raises(UsageError, match="no tokenizer at"):
        find_tokenizer(home / "none", "a/b", env)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("spark-1:8000", "http://spark-1:8000/v1"),
        ("http://a:8000/", "http://a:8000/v1"),
        ("https://a/openai/v1/", "https://a/openai/v1"),
        ("http://[::1]:8000/v1/chat/completions", "http://[::1]:8000/v1"),
    ],
)
def test_urls_in_the_forms_of_people(text: str, url: str) -> None:
    assert base_url(text) == url


def sse(*texts: str, end: str = "data: [DONE]\n\n", reason: str | None = "stop") -> str:
    said: list[dict[str, object]] = [{"choices": [{"delta": {"content": text}}]} for text in texts]
    last: dict[str, object] = {"choices": [{"delta": {}, "finish_reason": reason}]}
    return "".join(f"data: {json.dumps(one)}\n\n" for one in (*said, last)) + end


@pytest.mark.parametrize(
    ("text", "verdicts"),
    [
        (sse("Paris", " is it."), ["OK"]),
        (sse("Paris", end=""), ["CUT"]),
        (sse("Paris", reason=None), ["CUT"]),
        (sse(*["!"] * 300), ["GARBAGE"]),
        ('data: {"error": {"message": "out of memory"}}\n\n', ["ERROR"]),
        (PROSE, ["OK"]),
        ("!" * 500, ["GARBAGE"]),
        ("", ["EMPTY"]),
        ("\n".join(json.dumps({"text": PROSE[at : at + 400]}) for at in (0, 900)), ["OK", "OK"]),
        ("\n".join(json.dumps({"content": PROSE[:400]}) for _ in range(2)), ["GARBAGE", "GARBAGE"]),
        (json.dumps({"reasoning": "!" * 300, "content": "Paris"}), ["GARBAGE"]),
        ("\n".join((*stream(0, 0, PROSE[:400]), *stream(1, 0, "!" * 400))), ["OK", "GARBAGE"]),
        ("\n".join((*stream(0, 0, PROSE[:400]), *stream(1, 1, PROSE[:400]))), ["OK", "OK"]),
    ],
)
def test_saved_streams_of_every_form(text: str, verdicts: list[str]) -> None:
    assert [str(one.judgement.verdict) for one in judge_saved(text, LIMITS)] == verdicts


def test_answers_to_one_prompt_may_be_equal() -> None:
    text = "\n".join(json.dumps({"content": PROSE[:400]}) for _ in range(2))
    assert {one.judgement.verdict for one in judge_saved(text, LIMITS, same_prompt=True)} == {Verdict.OK}


def test_events_that_are_not_readable_are_told_and_no_stream_is_an_error() -> None:
    (found,) = judge_saved(sse("Paris") + 'data: {"choices": 3}\n\n', LIMITS)
    assert found.judgement.verdict is Verdict.SUSPECT
    with pytest.raises(UsageError, match="no stream"):
        judge_saved(line("bench_complete", None, 1.0, status="ok"), LIMITS)


def test_the_worst_says_why_and_of_equals_the_first() -> None:
    runs = tuple(read(*stream(0, 0, PROSE[:100])).runs(0, canaries_right=True))
    said = [(Verdict.OK, ""), (Verdict.SUSPECT, "1 of 2"), (Verdict.ERROR, "the clock moved"), (Verdict.ERROR, "later")]
    assert level_verdict(runs, said[:2], None, 1) == (Verdict.SUSPECT, "1 of 2")
    assert level_verdict(runs, said, None, 1) == (Verdict.ERROR, "the clock moved")
    assert level_verdict([], [], None, 0) == (Verdict.OK, "")
    assert level_verdict([], [], None, 2) == (Verdict.ERROR, "0 of 2 runs took place; the log of the load says why")
