"""The first answer of a server that writes no text: vectors of texts, or ranks of documents."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from operator import mul
from typing import Final

import requests
from urllib3.exceptions import HTTPError

from gb10.models.load.model_recipe import Answers
from gb10.serving.guard.finding import Ending, Finding, Judgement, Verdict
from gb10.serving.load_generator.endpoint import LARGEST, Endpoint, page

TEXTS: Final = (
    "A lighthouse warns ships of the rocks near the coast.",
    "The recipe asks for flour, butter and three eggs.",
    "A lighthouse warns ships of the rocks near the coast.",
)
"""The first and the last are the same."""
QUESTION: Final = "What tells a captain where the rocks are?"
SAME: Final = 0.99
"""Cosine that two embeddings of one text have at least: batches of other sizes round otherwise."""
ONE: Final = 0.999_999
"""Cosine from which the embeddings of two texts are one."""
CLOSE: Final = 0.02
"""By how much two ranks of one document may differ, of the ranks or of how far another document is from them: logits
lie around 0."""
SECONDS: Final = (15.0, 900.0)
"""To connect, and without a byte: the first request may compile kernels for minutes."""

REFUSED: Final = (400, 404, 405, 501)
"""How engines say that a model has no such path: vLLM 404, SGLang 400, llama.cpp 501."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PooledAnswer:
    """What a server answered, and on which path; ``status`` 0 is no answer."""

    answers: Answers
    status: int
    judgement: Judgement


def pooled_answer(endpoint: Endpoint, env: Mapping[str, str], expected: Answers = "embeddings") -> PooledAnswer:
    """The answer to one request on the path that is expected, else on the other: a model has one of them."""
    first = _request(endpoint, env, expected)
    if first.status not in REFUSED:
        return first
    other = _request(endpoint, env, "embeddings" if expected == "rerank" else "rerank")
    return other if other.status == HTTPStatus.OK else first


def _request(endpoint: Endpoint, env: Mapping[str, str], answers: Answers) -> PooledAnswer:
    body: dict[str, object] = {"model": endpoint.model}
    body |= {"input": TEXTS} if answers == "embeddings" else {"query": QUESTION, "documents": TEXTS}
    try:
        url = f"{endpoint.url}/{answers}"
        with page(url, endpoint.headers, env, seconds=SECONDS, direct=endpoint.direct, sent=body) as reply:
            status, text = reply.status_code, reply.raw.read(LARGEST, decode_content=True)
    except (requests.RequestException, HTTPError) as error:
        return PooledAnswer(answers=answers, status=0, judgement=no_answer(str(error)[:300]))
    if status != HTTPStatus.OK:
        said = text[:300].decode("utf-8", "replace")
        return PooledAnswer(answers=answers, status=status, judgement=no_answer(f"/v1/{answers}: {status} {said}"))
    return PooledAnswer(answers=answers, status=status, judgement=judge_answer(answers, text))


def judge_answer(answers: Answers, text: bytes) -> Judgement:
    """What a body says: numbers that are none, one answer to all texts, or two to one text. Pure."""
    try:
        found = json.loads(text)
        values = _vectors(found) if answers == "embeddings" else _ranks(found)
    except (ValueError, RecursionError, KeyError, TypeError, IndexError, OverflowError):
        said = text[:200].decode("utf-8", "replace")
        return no_answer(f"/v1/{answers} returned no answer to {len(TEXTS)} texts: {said}")
    wrong = _wrong_vectors(values) if answers == "embeddings" else _wrong_ranks([one for (one,) in values])
    if not wrong:
        return Judgement(verdict=Verdict.OK, ending=Ending(finish_reason="stop", done=True))
    finding = Finding(verdict=Verdict.GARBAGE, sign="alike", at=1, onset=1, what=wrong)
    return Judgement(verdict=Verdict.GARBAGE, findings=(finding,), ending=Ending(done=True))


def no_answer(why: str) -> Judgement:
    """The judgement of a request without an answer."""
    finding = Finding(verdict=Verdict.ERROR, sign="odd", at=1, onset=1, what=why)
    return Judgement(verdict=Verdict.ERROR, findings=(finding,), ending=Ending(error=why))


def _number(value: object) -> float:
    """A number; null is one that is none, as servers write it in JSON. Raises TypeError."""
    if value is None:
        return math.nan
    if not isinstance(value, int | float):
        raise TypeError
    return float(value)


def _vectors(found: object) -> list[list[float]]:
    rows = sorted(found["data"], key=lambda row: row["index"])  # type: ignore[index]
    vectors = [[_number(one) for one in row["embedding"]] for row in rows]
    if len(vectors) != len(TEXTS) or len({len(one) for one in vectors}) != 1 or not vectors[0]:
        raise ValueError
    return vectors


def _ranks(found: object) -> list[list[float]]:
    """vLLM and llama.cpp put them under ``results``; SGLang returns the list alone."""
    rows = found if isinstance(found, list) else found["results"]  # type: ignore[index]
    ranks = {row["index"]: _number(row.get("relevance_score", row.get("score"))) for row in rows}
    return [[ranks[number]] for number in range(len(TEXTS))]


def _wrong_vectors(vectors: Sequence[Sequence[float]]) -> str:
    if not all(math.isfinite(one) for vector in vectors for one in vector):
        return "an embedding has numbers that are none (NaN or infinite)"
    if not all(math.hypot(*vector) for vector in vectors):
        return "an embedding is all zeros"
    first, other, again = vectors
    if _cosine(first, again) < SAME:
        return f"two embeddings of one text differ: their cosine is {_cosine(first, again):.3f}"
    if _cosine(first, other) > ONE:
        return "two different texts have the same embedding"
    return ""


def _wrong_ranks(ranks: Sequence[float]) -> str:
    if not all(map(math.isfinite, ranks)):
        return "a rank is no number (NaN or infinite)"
    first, other, again = ranks
    if abs(first - again) > CLOSE * max(abs(first - other), abs(first), abs(again), 1e-6):
        return f"two ranks of one document differ: {first:g} and {again:g}"
    return "two different documents have the same rank" if first == other else ""


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    product: float = sum(map(mul, one, other))
    return product / (math.hypot(*one) * math.hypot(*other))
