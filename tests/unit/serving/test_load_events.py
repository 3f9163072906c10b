"""Server-sent events: every cut gives the same events; what is no event is counted or refused."""

import asyncio
from collections.abc import AsyncIterator

import httpx2
import pytest

from gb10.serving.load_generator import stream_client
from gb10.serving.load_generator.endpoint import Endpoint
from gb10.serving.load_generator.exchange import Exchange, Usage, flaws
from gb10.serving.load_generator.stream_client import LONGEST, Bounds, EventReader, TooLongError, ask_all

STREAM = (
    # a byte order mark, comments, all three line ends, a blank after the colon or none, characters of 2 to 4 bytes
    '\ufeff: a comment\r\nevent: x\ndata: {"a":\r\ndata:  1}\r\rid: 7\ndata:的🙂 é\n\n\n\ndata: [DONE]\n\nodd line\n'
).encode()
EVENTS = ['{"a":\n 1}', "的🙂 é", "[DONE]"]


def read(blocks: list[bytes]) -> list[str]:
    reader = EventReader()
    found = [event for block in blocks for event in reader.feed(block)]
    return [*found, *reader.end()]


def test_every_cut_in_two_and_every_byte_alone_give_the_same_events() -> None:
    for at in range(len(STREAM) + 1):
        assert read([STREAM[:at], STREAM[at:]]) == EVENTS, at
    assert read([STREAM[at : at + 1] for at in range(len(STREAM))]) == EVENTS


def test_a_last_event_without_its_blank_line_counts() -> None:
    assert read([b"data: a\n\ndata: b"]) == ["a", "b"]


def test_lines_that_are_no_field_are_counted() -> None:
    reader = EventReader()
    assert list(reader.feed(b'{"error": "no stream"}\n\n<html>\n')) == []
    assert reader.strange == 2


def test_broken_utf8_becomes_a_replacement_character() -> None:
    assert read([b"data: a\xff\xe7\n\n"]) == ["a\ufffd\ufffd"]


@pytest.mark.parametrize("line", [b"x" * 1000, b"data: " + b"x" * 1000 + b"\n"])
def test_an_event_is_bounded(line: bytes) -> None:
    reader = EventReader()
    with pytest.raises(TooLongError):
        for _ in range(LONGEST // 1000 + 2):
            list(reader.feed(line))


STREAMED = Exchange(status=200, content="Paris.", done=True, finish_reason="stop", content_type="text/event-stream")


@pytest.mark.parametrize(
    ("steps", "usage", "words"),
    [
        (3, Usage(completion=3), ""),
        (3, None, "sends no usage"),
        (30, Usage(completion=3), "fewer tokens than there were events with text (3, 30)"),
        (3, Usage(completion=300), "(300, 6 characters)"),
        (3, Usage(prompt=1), "sends no usage"),
    ],
)
def test_usage_is_held_against_the_text(steps: int, usage: Usage | None, words: str) -> None:
    exchange = Exchange(
        **{**{name: getattr(STREAMED, name) for name in STREAMED.__slots__}, "steps": steps, "usage": usage}
    )
    assert words in "".join(flaws(exchange))
    assert bool(flaws(exchange)) is bool(words)


def test_speed_needs_two_events() -> None:
    assert Exchange(arrived=(1.0,)).steps_per_second is None
    assert Exchange(arrived=(1.0, 1.5, 2.0)).steps_per_second == 2
    assert Exchange(steps=5, usage=Usage(completion=15)).tokens_per_step == 3


CLIENT = httpx2.AsyncClient
LINE = {"model": "m", "messages": []}
PIECE = b'data: {"choices": [{"index": 0, "delta": {"content": "ab"}}]}\n\n'
OTHER = b'data: {"choices": [{"index": 1, "delta": {"content": "x"}}]}\n\n'
STOP = b'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}\n\n'
USAGE = b'data: {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}}\n\ndata: [DONE]\n\n'


class Blocks(httpx2.AsyncByteStream):
    """The blocks of a reply; an error among them is raised in its place, ``None`` never ends."""

    def __init__(self, *blocks: bytes | Exception | None) -> None:
        self.blocks = blocks

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for block in self.blocks:
            if block is None:
                await asyncio.sleep(600)
            elif isinstance(block, Exception):
                raise block
            else:
                yield block


def heard(
    monkeypatch: pytest.MonkeyPatch,
    *blocks: bytes | Exception | None,
    status: int = 200,
    kind: str = "text/event-stream; charset=utf-8",
    key: str = "",
) -> Exchange:
    """What comes of a server that answers so."""
    sent: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        sent.append(request)
        return httpx2.Response(status, headers={"content-type": kind}, stream=Blocks(*blocks))

    monkeypatch.setattr(httpx2, "AsyncClient", lambda **_: CLIENT(transport=httpx2.MockTransport(answer), timeout=1))
    bounds = Bounds(whole=0.05 if None in blocks else 60)
    found, again = ask_all(Endpoint(url="http://s/v1", model="m", key=key), [LINE, LINE], {}, bounds)
    assert [str(one.url) for one in sent] == ["http://s/v1/chat/completions"] * 2
    assert {one.headers.get("authorization") for one in sent} == {f"Bearer {key}" if key else None}
    assert (found.content, found.error) == (again.content, again.error)
    return found


def test_an_answer_is_all_that_its_events_say(monkeypatch: pytest.MonkeyPatch) -> None:
    found = heard(monkeypatch, PIECE + OTHER, PIECE, STOP, USAGE, key="k")
    assert (found.content, found.finish_reason, found.done, found.error) == ("abab", "stop", True, "")
    assert (found.usage, found.events, found.steps) == (Usage(prompt=5, completion=2), 5, 2)
    assert (found.status, found.late, found.malformed) == (200, 0, 0)
    assert 0 <= found.arrived[0] <= found.arrived[1] <= found.seconds
    late = heard(monkeypatch, PIECE, STOP, PIECE, USAGE, PIECE, b"data: [1]\n\n")
    assert (late.content, late.late, late.malformed) == ("abab", 3, 0)
    assert heard(monkeypatch, PIECE, b"data: [1]\n\ndata: {\n\n", USAGE).malformed == 2
    told = heard(monkeypatch, b'data: {"error": {"message": "no memory"}}\n\n', b'data: {"error": "more"}\n\n')
    assert (told.error, told.done) == ("the server reported in its stream: no memory", False)
    assert heard(monkeypatch, PIECE.rstrip()).content == "ab", "an event at the end needs no blank line"


@pytest.mark.parametrize(
    ("blocks", "status", "kind", "error"),
    [
        ((b'{"error": {"message": "no  such\\nmodel"}}',), 404, "application/json", "answered 404: no such model"),
        ((b'{"message": "odd"}',), 500, "application/json", "answered 500: odd"),
        ((b"<html>  Bad\n gateway",), 502, "text/html", "answered 502: <html> Bad gateway"),
        ((b"[1]",), 500, "application/json", "answered 500: [1]"),
        ((), 503, "text/plain", "answered 503: nothing"),
        ((PIECE,), 500, "text/event-stream", "answered 500: data: {"),
        ((b'{"error": "use /v1"}',), 200, "application/json", "the server did not stream: use /v1"),
        ((b"{}",), 200, "application/json", "the server did not stream: {}"),
        ((PIECE,), 200, "text/plain", ""),
        ((PIECE, httpx2.RemoteProtocolError("peer closed")), 200, "text/event-stream", "connection broke: peer closed"),
        ((PIECE, httpx2.RemoteProtocolError("")), 200, "text/event-stream", "broke: RemoteProtocolError"),
        ((PIECE, httpx2.ReadTimeout("")), 200, "text/event-stream", "the server was silent for 600 s"),
        ((PIECE, None), 200, "text/event-stream", "the stream did not end in 0 s"),
        ((b"data: " + b"x" * (LONGEST + 1),), 200, "text/event-stream", "an event is longer than 4,194,304 characters"),
    ],
)
def test_what_is_no_answer_is_one_sentence(
    blocks: tuple[bytes | Exception | None, ...], status: int, kind: str, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = heard(monkeypatch, *blocks, status=status, kind=kind)
    assert error in found.error and bool(error) == bool(found.error)
    assert (found.status, found.content_type, found.done) == (status, kind, False)
    assert found.content == ("ab" if PIECE in blocks and status == 200 else "")


def test_a_reply_without_end_is_not_read_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_client, "LARGEST", 1000)
    monkeypatch.setattr(stream_client, "LARGEST_ERROR", 100)
    assert heard(monkeypatch, b"data: 1\n" * 125).error == ""
    assert heard(monkeypatch, b"data: 1\n" * 126).error == "the server sent more than 1,008 bytes"
    assert heard(monkeypatch, b"x" * 100, b"y", b"z", status=500).error == f"the server answered 500: {'x' * 100}"
