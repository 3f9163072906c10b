"""Streams as a broken or hostile server sends them: any cut gives the same events, every text gets a verdict."""

import json
import random
from pathlib import Path
from typing import Final

from gb10.errors import UsageError
from gb10.serving.guard.finding import Verdict
from gb10.serving.load_generator.canary_batch import guard_limits
from gb10.serving.load_generator.saved import judge_saved
from gb10.serving.load_generator.stream_client import EventReader
from tests.fuzz import mutate

TOKENS: Final = (
    *(b"data:", b"data: ", b"\n\n", b"\r\n", b"\r", b": x\n", b"[DONE]", b"null", b"[", b"{", b"\xef\xbb\xbf", b"\xff"),
    *(b'"choices"', b'"delta"', b'"content"', b'"reasoning"', b'"error"', b'"index"', b'"finish_reason"', b"!" * 300),
)


def _event(**delta: object) -> str:
    return f"data: {json.dumps({'choices': [{'index': 0, 'delta': delta, 'finish_reason': None}]})}\n\n"


STREAMS: Final = (
    "".join(
        (_event(role="assistant"), _event(content="Pa"), _event(content="ris \u7684"), "data: [DONE]\n\n")
    ).encode(),
    "".join((_event(reasoning="so"), _event(tool_calls=[{"index": 0}]), 'data: {"error": "x"}\n\n')).encode(),
    b'{"text": "a"}\n{"content": "b", "reasoning_content": "c"}\n',
    b'{"schema":"llama-benchy-progress.v1","type":"request_start","request_id":0,"ts":1.0,"run_index":0}\n'
    b'{"schema":"llama-benchy-progress.v1","type":"tokens","request_id":0,"ts":2.0,"count":1,"snippet":"x"}\n',
)


def some_stream(rng: random.Random) -> bytes:
    """One of them, changed."""
    return mutate.of_bytes(rng, STREAMS, TOKENS)


def read_stream(data: bytes, _: Path) -> None:
    """Whole, and byte by byte; then judged."""
    events = []
    for step in (1, 3, max(1, len(data))):
        reader = EventReader()
        blocks = [data[at : at + step] for at in range(0, len(data), step)]
        events.append([event for block in blocks for event in reader.feed(block)] + list(reader.end()))
    assert events[0] == events[1] == events[2]
    try:
        found = judge_saved(data.decode("utf-8", "replace"), guard_limits())
    except UsageError:
        return
    assert found
    assert all(one.judgement.verdict in Verdict for one in found)
