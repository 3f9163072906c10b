"""Server-sent events: every cut gives the same events; what is no event is counted or refused."""

import pytest

from gb10.serving.load_generator.exchange import Exchange, Usage, flaws
from gb10.serving.load_generator.stream_client import LONGEST, EventReader, TooLongError

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
