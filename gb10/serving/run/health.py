"""Whether a service works: its health page says so, then one request has an answer that the guard accepts."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

import requests
from urllib3.exceptions import HTTPError

from gb10.errors import EndpointError
from gb10.models.load.model_recipe import Answers
from gb10.serving.guard.canary import make_canaries
from gb10.serving.guard.finding import Judgement
from gb10.serving.load_generator.canary_batch import ask_canaries, guard_facts, guard_limits
from gb10.serving.load_generator.endpoint import reach
from gb10.serving.load_generator.stream_client import Bounds
from gb10.serving.run.heard_answer import heard_answer
from gb10.serving.run.pooled_answer import pooled_answer
from gb10.serving.run.service import Service

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


def first_answer(service: Service, env: Mapping[str, str]) -> tuple[Answers, Judgement]:
    """What the server answers, and what the guard says of its answer to one request. Raises EndpointError.

    A server without /v1/chat/completions (404, or 501 as vLLM has it) is asked for embeddings, then for ranks, then for
    what it hears. Whether the answer is right is no matter of health: small models are wrong about the world.
    """
    served = reach(service.endpoint, None, env, direct=True)
    if service.answers != "chat":
        heard = service.answers == "audio/transcriptions"
        pooled = heard_answer(served, env) if heard else pooled_answer(served, env, service.answers)
        if pooled.status == 0:
            raise EndpointError("the server is healthy and does not answer", where=pooled.judgement.why)
        return pooled.answers, pooled.judgement
    canaries = make_canaries(1, guard_facts(), seed=service.endpoint)
    batch = ask_canaries(served, canaries, env, guard_limits(), max_tokens=TOKENS, extra={}, when="first", bounds=FIRST)
    judgement, status = batch.judgements[0], batch.exchanges[0].status
    if status == 0:
        raise EndpointError("the server is healthy and does not answer", where=judgement.why)
    if status in (HTTPStatus.NOT_FOUND, HTTPStatus.NOT_IMPLEMENTED):
        for other in (pooled_answer, heard_answer):
            found = other(served, env)
            if found.status == HTTPStatus.OK:
                return found.answers, found.judgement
    return "chat", judgement
