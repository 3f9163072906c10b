"""The first answer of a server that turns speech to text: of a tone, in which there is nothing to hear."""

import io
import json
import math
import struct
import wave
from collections.abc import Mapping
from functools import cache
from http import HTTPStatus
from typing import Final

import requests
from urllib3.exceptions import HTTPError

from gb10.serving.guard.finding import Ending, Judgement, Verdict
from gb10.serving.load_generator.endpoint import LARGEST, Endpoint, page
from gb10.serving.run.pooled_answer import SECONDS, PooledAnswer, no_answer

PATH: Final = "audio/transcriptions"
RATE: Final = 16_000
LONG_S: Final = 2
"""Seconds of sound: models cut it into frames, and a few want more than one second."""


@cache
def tone() -> bytes:
    """A quiet tone of 440 Hz, as a WAV file."""
    waves = (round(2000 * math.sin(2 * math.pi * 440 * at / RATE)) for at in range(RATE * LONG_S))
    kept = io.BytesIO()
    with wave.open(kept, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(b"".join(struct.pack("<h", one) for one in waves))
    return kept.getvalue()


def heard_answer(endpoint: Endpoint, env: Mapping[str, str]) -> PooledAnswer:
    """The answer to one request with a file, as both engines take it (their routes /v1/audio/transcriptions)."""
    form: dict[str, tuple[str | None, str | bytes]] = {
        "file": ("tone.wav", tone()),
        "model": (None, endpoint.model),
        "response_format": (None, "json"),
    }
    try:
        url = f"{endpoint.url}/{PATH}"
        with page(url, endpoint.headers, env, seconds=SECONDS, direct=endpoint.direct, form=form) as reply:
            status, text = reply.status_code, reply.raw.read(LARGEST, decode_content=True)
    except (requests.RequestException, HTTPError) as error:
        return PooledAnswer(answers=PATH, status=0, judgement=no_answer(str(error)[:300]))
    return PooledAnswer(answers=PATH, status=status, judgement=judge_heard(status, text))


def judge_heard(status: int, text: bytes) -> Judgement:
    """Whether a body has a text, whatever it is: an empty one, too. Pure."""
    said = text[:300].decode("utf-8", "replace")
    if status != HTTPStatus.OK:
        return no_answer(f"/v1/{PATH}: {status} {said}")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("text"), str):
        return no_answer(f"/v1/{PATH} returned no text of what it heard: {said}")
    return Judgement(verdict=Verdict.OK, ending=Ending(finish_reason="stop", done=True))
