"""The client against a real HTTP server: the truth of each stream, cut anywhere, with each fault."""

import os
from collections.abc import Iterator

import pytest

from gb10.errors import EndpointError, Gb10Error, UsageError
from gb10.image.plan.catalog import ROOT
from gb10.serving.guard.finding import Verdict
from gb10.serving.guard.judging import StreamWatch
from gb10.serving.guard.limits import read_limits
from gb10.serving.load_generator.endpoint import KEY, Endpoint, reach
from gb10.serving.load_generator.exchange import Exchange, flaws
from gb10.serving.load_generator.stream_client import Bounds, ask_all, payload
from tests.integration.openai_server import FAULTS, GARBAGE, MODELS, State, serving

pytestmark = pytest.mark.integration
LIMITS = read_limits((ROOT / "recipes/guard/limits.toml").read_text(encoding="utf-8"))
BOUNDS = Bounds(silent=1.0, whole=20.0)


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[str, State]]:
    with serving() as running:
        yield running


def ask(url: str, model: str, prompt: str = "Tell me about images.", count: int = 1) -> tuple[Exchange, ...]:
    endpoint = Endpoint(url=f"{url}/v1", model=model)
    return ask_all(endpoint, [payload(model, prompt, 400)] * count, os.environ, BOUNDS)


def verdict(exchange: Exchange) -> Verdict:
    watch = StreamWatch(LIMITS)
    watch.feed(exchange.reasoning, "reasoning")
    watch.feed(exchange.content)
    return watch.judge(exchange.ending).verdict


def test_a_good_stream_is_whole(server: tuple[str, State]) -> None:
    (found,) = ask(server[0], "good")
    assert (found.status, found.finish_reason, found.done, found.error) == (200, "stop", True, "")
    assert found.usage is not None
    assert found.usage.completion == found.steps == len(found.arrived) == 400
    assert found.tokens_per_step == 1
    assert flaws(found) == ()
    assert verdict(found) is Verdict.OK


@pytest.mark.slow
@pytest.mark.parametrize("pieces", [1, 2, 3, 7, 1000])
def test_a_stream_in_pieces_of_any_size_is_the_same(server: tuple[str, State], pieces: int) -> None:
    wanted = ask(server[0], "garbage: scripts")[0]
    with serving(pieces=pieces) as (url, _):
        (found,) = ask(url, "garbage: scripts")
    assert (found.content, found.events, found.malformed) == (wanted.content, wanted.events, 0)
    assert "的" in found.content


@pytest.mark.parametrize("model", ["reasoning", "reasoning_content", "both spellings"])
def test_both_spellings_of_reasoning_are_heard(server: tuple[str, State], model: str) -> None:
    (found,) = ask(server[0], model)
    assert found.reasoning == "The user gives a code and asks a question.  "
    assert found.spelling == {"both spellings": "both"}.get(model, model)


def test_speculation_is_seen_in_tokens_a_step(server: tuple[str, State]) -> None:
    (found,) = ask(server[0], "speculation")
    assert found.tokens_per_step == pytest.approx(3, abs=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("model", [name for name in GARBAGE if "salad" not in name and "soup" not in name])
def test_eight_streams_of_garbage_at_once_are_each_called_garbage(server: tuple[str, State], model: str) -> None:
    found = ask(server[0], model, count=8)
    assert {verdict(one) for one in found} <= {Verdict.GARBAGE}, model


WANTED = {
    "error 500": (Verdict.ERROR, "the server answered 500: CUDA error"),
    "error in the stream": (Verdict.ERROR, "the server reported in its stream: EngineCore"),
    "dropped": (Verdict.ERROR, "the connection broke"),
    "no end mark": (Verdict.CUT, ""),
    "no finish reason": (Verdict.CUT, ""),
    "unreadable event": (Verdict.OK, "events are not readable (1 of 404)"),
    "silent": (Verdict.ERROR, "the server was silent for 1 s"),
    "wrong usage": (Verdict.OK, "more tokens than the text can have (8000,"),
    "no usage": (Verdict.OK, "sends no usage"),
    "endless event": (Verdict.ERROR, "an event is longer than"),
    "no stream": (Verdict.ERROR, "the server did not stream"),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_has_its_verdict_and_its_sentence(server: tuple[str, State], fault: str) -> None:
    (found,) = ask(server[0], f"fault: {fault}")
    wanted, sentence = WANTED[fault]
    assert verdict(found) is wanted
    assert sentence in "\n".join((found.error, *flaws(found)))


def test_a_stream_is_bounded_in_time() -> None:
    with serving(rate=20) as (url, _):
        endpoint = Endpoint(url=f"{url}/v1", model="good")
        (found,) = ask_all(endpoint, [payload("good", "x", 400)], os.environ, Bounds(whole=0.5))
    assert found.error == "the stream did not end in 0 s"
    assert found.content
    assert not found.done


def test_the_model_is_found_or_named(server: tuple[str, State]) -> None:
    url = server[0].removeprefix("http://")
    assert reach(url, "good", {}).url == f"{server[0]}/v1"
    with pytest.raises(UsageError, match=f"serves {len(MODELS) + 1} models"):
        reach(url, None, {})
    with pytest.raises(UsageError, match="does not serve 'gpt-5'"):
        reach(url, "gpt-5", {})
    (found,) = ask(server[0], "gpt-5")
    assert "404: The model `gpt-5` does not exist" in found.error


def test_a_key_is_wanted_and_never_shown() -> None:
    with serving(key="sesame") as (url, _):
        with pytest.raises(EndpointError, match="wants a key") as caught:
            reach(url, "good", {KEY: "guess"})
        assert "guess" not in str(caught.value)
        endpoint = reach(url, "good", {KEY: "sesame"})
        assert "sesame" not in repr(endpoint)
        (found,) = ask_all(endpoint, [payload("good", "x", 9)], {})
    assert found.done


@pytest.mark.parametrize(
    ("url", "words"),
    [("http://127.0.0.1:1", "does not answer"), ("https://127.0.0.1:1", "does not answer")],
)
def test_an_endpoint_that_is_down_is_one_sentence(url: str, words: str) -> None:
    with pytest.raises(EndpointError, match=words):
        reach(url, None, {})
    (found,) = ask_all(Endpoint(url=f"{url}/v1", model="x"), [payload("x", "x", 1)], {})
    assert "the connection broke" in found.error


def test_a_server_without_tls_is_one_sentence(server: tuple[str, State]) -> None:
    with pytest.raises(EndpointError, match="certificate is not trusted, or it does not speak TLS"):
        reach(server[0].replace("http:", "https:"), None, {})


@pytest.mark.parametrize("url", ["ftp://a", "http://", "http://a:99999", "http://a/v1?x=1", "a b:x"])
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(Gb10Error, match="not an endpoint"):
        reach(url, None, {})
