"""A small client for chat completions: every event of the stream is looked at, its size and its time are bounded."""

import asyncio
import codecs
import json
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final

import httpx2

from gb10.core.fetch import ca_bundle
from gb10.serving.guard.delta import parse_delta
from gb10.serving.guard.judging import Channel
from gb10.serving.load_generator.endpoint import Endpoint
from gb10.serving.load_generator.exchange import Exchange, Usage

LONGEST: Final = 4 << 20
"""Characters of one event; a server that sends more is not one to listen to."""


class TooLongError(ValueError):
    """An event of more than LONGEST characters."""


class EventReader:
    """Feed it bytes as they arrive; it gives the ``data`` of each whole event (WHATWG HTML, 9.2.6)."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self._rest: list[str] = []
        self._after_cr = False
        self._data: list[str] = []
        self._size = 0
        self._waiting = 0
        self.strange = 0
        """Lines that are no field, no comment and not empty: no event stream has them."""

    def feed(self, block: bytes) -> Iterator[str]:
        """The events that ``block`` completes. Raises TooLongError."""
        yield from self._lines(self._decoder.decode(block))

    def end(self) -> Iterator[str]:
        """What the last line leaves when the stream ends: servers forget the blank line after the last event."""
        yield from self._lines(self._decoder.decode(b"", final=True) + "\n\n")

    def _lines(self, text: str) -> Iterator[str]:
        if self._after_cr and text.startswith("\n"):
            text = text[1:]
        if text:
            self._after_cr = text.endswith("\r")
        first, *lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        self._rest.append(first)  # joined once, when the line ends: a long line may arrive byte by byte
        self._waiting += len(first)
        if self._size + self._waiting > LONGEST:
            raise TooLongError(f"an event is longer than {LONGEST:,} characters")
        if lines:
            first, self._rest = "".join(self._rest), [lines.pop()]
            self._waiting = len(self._rest[0])
            for line in (first, *lines):
                yield from self._line(line)

    def _line(self, line: str) -> Iterator[str]:
        if not line:
            if self._data:
                yield "\n".join(self._data)
            self._data.clear()
            self._size = 0
            return
        name, _, value = line.partition(":")
        if name == "data":
            self._data.append(value.removeprefix(" "))
            self._size += len(value) + 1
        elif name not in ("", "event", "id", "retry"):
            self.strange += 1


DONE: Final = "[DONE]"
LARGEST: Final = 64 << 20
"""Bytes of one stream."""
LARGEST_ERROR: Final = 64 << 10
OnText = Callable[[Channel, str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Seconds that a request may take."""

    connect: float = 15.0
    silent: float = 600.0
    """Without a byte: a request may wait for others, and the first one for kernels that are compiled."""
    whole: float = 1800.0


@dataclass(slots=True, kw_only=True)
class _StreamState:
    """What was heard so far; frozen into an Exchange when the stream ends."""

    began: float
    on_text: OnText
    status: int = 0
    content_type: str = ""
    finish_reason: str | None = None
    done: bool = False
    error: str = ""
    usage: Usage | None = None
    events: int = 0
    malformed: int = 0
    late: int = 0
    tool_calls: int = 0
    spelling: str = ""
    texts: dict[Channel, list[str]] = field(default_factory=lambda: {"content": [], "reasoning": []})
    arrived: list[float] = field(default_factory=list)

    def event(self, data: str) -> None:
        """Take one event of the stream."""
        if self.done:
            self.late += 1
            return
        if data.strip() == DONE:
            self.done = True
            return
        self.events += 1
        try:
            said = json.loads(data)
            if not isinstance(said, dict):
                raise TypeError("an event is no object")
            self.say(said)
        except (ValueError, TypeError, RecursionError):
            self.malformed += 1

    def say(self, said: Mapping[str, object]) -> None:
        """Take the parts of an event. Raises ValueError and TypeError for what is none."""
        if said.get("error"):
            self.error = self.error or f"the server reported in its stream: {message_of(said)}"
        self._count(said.get("usage"))
        for one in parse_delta(said):
            if one.index == 0:
                self._text("reasoning", one.reasoning)
                self._text("content", one.content)
                self.spelling = self.spelling or one.spelling
                self.tool_calls += one.tool_calls
                self.finish_reason = one.finish_reason or self.finish_reason

    def _text(self, channel: Channel, text: str) -> None:
        if text:
            self.late += self.finish_reason is not None
            self.texts[channel].append(text)
            self.arrived.append(time.perf_counter() - self.began)
            self.on_text(channel, text)

    def _count(self, usage: object) -> None:
        if isinstance(usage, dict):
            counts = {name: usage.get(f"{name}_tokens") for name in ("prompt", "completion")}
            self.usage = Usage(**{name: count for name, count in counts.items() if isinstance(count, int)})

    def exchange(self) -> Exchange:
        """The frozen value."""
        return Exchange(
            status=self.status,
            content="".join(self.texts["content"]),
            reasoning="".join(self.texts["reasoning"]),
            spelling=self.spelling,
            tool_calls=self.tool_calls,
            finish_reason=self.finish_reason,
            done=self.done,
            error=self.error,
            usage=self.usage,
            events=self.events,
            steps=len(self.arrived),
            malformed=self.malformed,
            late=self.late,
            content_type=self.content_type,
            arrived=tuple(self.arrived),
            seconds=time.perf_counter() - self.began,
        )


def message_of(said: Mapping[str, object]) -> str:
    """The text of an error in any of the forms that servers use."""
    error = said.get("error", said)
    text = error.get("message") if isinstance(error, dict) else error
    return " ".join(str(text or said).split())[:300]


def payload(model: str, prompt: str, max_tokens: int, extra: Mapping[str, object] | None = None) -> dict[str, object]:
    """A streamed chat request at temperature 0. Pure."""
    return {
        "model": model,
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": max_tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
        **(extra or {}),
    }


def ask_all(
    endpoint: Endpoint,
    requests: Sequence[Mapping[str, object]],
    env: Mapping[str, str],
    bounds: Bounds | None = None,
    on_text: Callable[[int], OnText] = lambda place: lambda channel, text: None,
) -> tuple[Exchange, ...]:
    """Send all requests at once; one Exchange each, in their order. A failure is in its Exchange, not raised.

    ``on_text`` gets the place of a request, and gives what takes its text.
    """
    limits = bounds or Bounds()

    async def run() -> tuple[Exchange, ...]:
        async with _client(env, limits, len(requests), direct=endpoint.direct) as client:
            requests_sent = (_ask(client, endpoint, body, limits, on_text(at)) for at, body in enumerate(requests))
            return tuple(await asyncio.gather(*requests_sent))

    return asyncio.run(run())


def _client(env: Mapping[str, str], bounds: Bounds, count: int, *, direct: bool) -> httpx2.AsyncClient:
    bundle = ca_bundle(env)
    timeout = httpx2.Timeout(bounds.silent, connect=bounds.connect, pool=None)
    return httpx2.AsyncClient(
        verify=_trusting(str(bundle) if bundle else None),
        timeout=timeout,
        trust_env=not direct,
        limits=httpx2.Limits(max_connections=max(1, count)),
    )


@cache
def _trusting(bundle: str | None) -> ssl.SSLContext:
    """Certificates are read once, not for each batch of requests."""
    return ssl.create_default_context(cafile=bundle)


async def _ask(
    client: httpx2.AsyncClient, endpoint: Endpoint, body: Mapping[str, object], bounds: Bounds, on_text: OnText
) -> Exchange:
    found = _StreamState(began=time.perf_counter(), on_text=on_text)
    try:
        async with (
            asyncio.timeout(bounds.whole),
            client.stream(
                "POST", f"{endpoint.url}/chat/completions", json=dict(body), headers=endpoint.headers
            ) as reply,
        ):
            await _listen(reply, found)
    except TimeoutError:
        found.error = f"the stream did not end in {bounds.whole:.0f} s"
    except httpx2.ReadTimeout:
        found.error = f"the server was silent for {bounds.silent:.0f} s"
    except (httpx2.HTTPError, TooLongError) as error:
        found.error = found.error or f"the connection broke: {str(error) or type(error).__name__}"
    return found.exchange()


async def _listen(reply: httpx2.Response, found: _StreamState) -> None:
    """Read a reply to its end, or to LARGEST bytes. Raises httpx2.HTTPError, TooLongError."""
    found.status = reply.status_code
    found.content_type = reply.headers.get("content-type", "")
    reader, size = EventReader(), 0
    body = bytearray()
    plain = reply.status_code != 200 or "text/event-stream" not in found.content_type
    async for block in reply.aiter_bytes():
        size += len(block)
        if plain and size <= LARGEST_ERROR:
            body += block
        if size > LARGEST or (reply.status_code != 200 and size > LARGEST_ERROR):
            found.error = found.error or f"the server sent more than {size:,} bytes"
            break
        if reply.status_code == 200:
            for data in reader.feed(block):
                found.event(data)
    if reply.status_code != 200:
        found.error = f"the server answered {reply.status_code}: {_of_body(bytes(body))}"
        return
    for data in reader.end():
        found.event(data)
    if plain and not found.events:
        found.error = found.error or f"the server did not stream: {_of_body(bytes(body))}"


def _of_body(body: bytes) -> str:
    """The error text of a reply that is no stream."""
    text = body.decode("utf-8", "replace")
    try:
        said = json.loads(text)
    except ValueError:
        return " ".join(text.split())[:300] or "nothing"
    return message_of(said) if isinstance(said, dict) else text[:300]
