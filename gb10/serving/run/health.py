"""Whether a service works: its health page says so, then one streamed request has an answer that the guard accepts."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

import requests
from urllib3.exceptions import HTTPError

from gb10.errors import EndpointError
from gb10.serving.guard.canary import make_canaries
from gb10.serving.guard.finding import Judgement
from gb10.serving.load.canary_batch import ask_canaries, guard_facts, guard_limits
from gb10.serving.load.endpoint import reach
from gb10.serving.load.stream_client import Bounds

LOOK: Final = 5.0
"""Seconds that one look may take."""
TOKENS: Final = 64
FIRST: Final = Bounds(connect=15.0, silent=900.0, whole=1200.0)
"""The first request may compile kernels for minutes."""


def is_healthy(endpoint: str) -> bool:
    """Whether ``GET /health`` says that the server is ready. vLLM, SGLang, TensorRT-LLM and llama.cpp have it."""
    with requests.Session() as session:
        session.trust_env = False  # nodes are near: no proxy leads to them
        try:
            reply = session.get(f"{endpoint}/health", timeout=LOOK, allow_redirects=False, stream=True)
            return reply.status_code == HTTPStatus.OK
        except (requests.RequestException, HTTPError, ValueError):  # the last two: of a URL that is none
            return False


def first_answer(endpoint: str, env: Mapping[str, str]) -> Judgement:
    """What the guard says of the answer to one streamed request. Raises EndpointError.

    Whether the answer is right is no matter of health: small models are wrong about the world.
    """
    served = reach(endpoint, None, env, direct=True)
    canaries = make_canaries(1, guard_facts(), seed=endpoint)
    batch = ask_canaries(served, canaries, env, guard_limits(), max_tokens=TOKENS, extra={}, when="first", bounds=FIRST)
    judgement = batch.judgements[0]
    if batch.exchanges[0].status == 0:
        raise EndpointError("the server is healthy and does not answer", where=judgement.why)
    return judgement
