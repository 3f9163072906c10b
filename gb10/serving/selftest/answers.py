"""Answers of a server: canaries at every batch size, prefixes, long answers, greedy answers of two servers."""

import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import Any, Final

import requests
from urllib3.exceptions import HTTPError

from gb10.core.installation import ROOT
from gb10.serving.guard.canary import make_canaries
from gb10.serving.guard.judging import StreamWatch
from gb10.serving.load_generator.canary_batch import (
    CanaryBatch,
    ask_canaries,
    canary_verdict,
    guard_facts,
    guard_limits,
    merge_batches,
)
from gb10.serving.load_generator.endpoint import Endpoint, page
from gb10.serving.load_generator.exchange import Exchange
from gb10.serving.load_generator.stream_client import Bounds, ask_all, message_of, payload

CANARY_TOKENS: Final = 96
BOUNDS: Final = Bounds(connect=15.0, silent=300.0, whole=900.0)
QUESTIONS: Final = (
    "Write one paragraph about how a suspension bridge carries its load.",
    "List the first twelve prime numbers, separated by commas.",
    "Explain in three sentences why the sky is blue.",
    "Write a function in Python that reverses a linked list.",
    "Translate into French: The train leaves at seven in the morning.",
    "What are the main differences between a stack and a queue?",
    "Summarize the water cycle in four sentences.",
    "Continue the row: 1, 1, 2, 3, 5, 8, 13,",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchVerdict:
    """Canaries that were sent at once."""

    size: int
    met: int
    """How many of their answers were under way at one moment, at most: a busy machine sends some after others ended."""
    right: int
    of: int
    """Answers of all tries."""
    bad: str
    """What is wrong; empty when nothing is."""


def alone(endpoint: Endpoint, env: Mapping[str, str], count: int, seed: str, extra: Mapping[str, Any]) -> CanaryBatch:
    """Canaries one at a time: what the model can do at all."""
    limits = guard_limits()
    return merge_batches(
        [
            ask_canaries(
                endpoint, [one], env, limits, max_tokens=CANARY_TOKENS, extra=extra, when="alone", bounds=BOUNDS
            )
            for one in make_canaries(count, guard_facts(), f"{seed}-alone")
        ]
    )


def ask_at_once(
    endpoint: Endpoint, env: Mapping[str, str], size: int, seed: str, extra: Mapping[str, Any]
) -> tuple[CanaryBatch, int]:
    """Canaries at once, up to TRIES times, until all of them met; all answers as one batch, and how many met.

    Answers that took QUICK seconds and did not meet will not: the server runs fewer at once.
    """
    tries, met, quick = list[CanaryBatch](), 0, True
    while met < size and quick and len(tries) < TRIES:
        batch = ask_canaries(
            endpoint,
            make_canaries(size, guard_facts(), f"{seed}-{size}"),
            env,
            guard_limits(),
            max_tokens=CANARY_TOKENS,
            extra=extra,
            when="after the load",
            bounds=BOUNDS,
        )
        tries.append(batch)
        met = max(met, met_at_once(batch.exchanges))
        quick = all(one.seconds < QUICK for one in batch.exchanges)
    return merge_batches(tries), met


TRIES: Final = 4
QUICK: Final = 5.0


def met_at_once(exchanges: Sequence[Exchange]) -> int:
    """The most answers that were under way at one moment, all sent at one: from the first text to the last.

    An answer that comes as one text is under way from its sending on. Pure.
    """
    spans = [(one.arrived[0], one.arrived[-1]) if len(one.arrived) > 1 else (0.0, one.seconds) for one in exchanges]
    return max(sum(begin <= at <= end for begin, end in spans) for at, _ in spans)


def batch_verdict(batch: CanaryBatch, before: CanaryBatch) -> str:
    """What is wrong with canaries, held against those one at a time; empty when nothing is. Pure."""
    verdict, why = canary_verdict(batch, before)
    return f"{verdict}: {why}" if verdict.bad else ""


def at_once(
    endpoint: Endpoint, env: Mapping[str, str], size: int, before: CanaryBatch, *, seed: str, extra: Mapping[str, Any]
) -> BatchVerdict:
    """Canaries at once, held against those one at a time."""
    batch, met = ask_at_once(endpoint, env, size, seed, extra)
    return BatchVerdict(size=size, met=met, right=batch.right, of=len(batch.answers), bad=batch_verdict(batch, before))


AT_ONCE: Final = (3, 8)


@dataclass(frozen=True, kw_only=True, slots=True)
class Canaries:
    """A server's canaries one at a time, and those of each number at once, by words (``3 at once``)."""

    alone: CanaryBatch
    together: Mapping[str, CanaryBatch]
    met: Mapping[str, int]
    """How many of each answered at the same moment."""

    @property
    def batches(self) -> Mapping[str, CanaryBatch]:
        """All of them."""
        return {"one at a time": self.alone, **self.together}

    @property
    def counts(self) -> Mapping[str, str]:
        """How many are right."""
        return {when: f"{batch.right} of {len(batch.answers)}" for when, batch in self.batches.items()}


def canaries_of(endpoint: Endpoint, env: Mapping[str, str], seed: str, extra: Mapping[str, Any]) -> Canaries:
    """The canaries of a server, the same ones of each server."""
    found = {f"{size} at once": ask_at_once(endpoint, env, size, seed, extra) for size in AT_ONCE}
    return Canaries(
        alone=alone(endpoint, env, 4, seed, extra),
        together={when: batch for when, (batch, _) in found.items()},
        met={when: met for when, (_, met) in found.items()},
    )


def sizes(most: int, captured: Sequence[int], *, quick: bool) -> list[int]:
    """Batch sizes to try: all up to ``most``; quick: a few, those with a graph, and what lies between two. Pure."""
    if not quick:
        return list(range(1, most + 1))
    between = [(one + other) // 2 for one, other in pairwise(sorted(captured)) if other - one > 1]
    return sorted({one for one in (1, 2, 3, 4, 5, 7, 8, *captured, *between) if one <= most})


CAPTURED: Final = re.compile(r"cudagraph_capture_sizes['\"]?\s{0,3}[:=]\s{0,3}\[([\d, ]{1,4000})")


def captured_sizes(log: str) -> list[int]:
    """Batch sizes that have a CUDA graph, as the server's log says. Pure."""
    found = CAPTURED.search(log)
    return sorted({int(one) for one in found[1].replace(",", " ").split()}) if found else []


def long_prompt(tokens: int) -> str:
    """Some tokens of English: gb10's own pages, four characters a token."""
    text = "\n\n".join(page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs").glob("*.md")))
    whole = text * (tokens * 4 // len(text) + 1)
    return f"{whole[: tokens * 4]}\n\nWrite a long and detailed summary of the text above."


def ask(
    endpoint: Endpoint,
    env: Mapping[str, str],
    prompts: Sequence[str],
    tokens: int,
    extra: Mapping[str, Any] | None = None,
) -> tuple[Exchange, ...]:
    """Greedy answers, asked at once."""
    bodies = [payload(endpoint.model, one, tokens, {"seed": 1, **(extra or {})}) for one in prompts]
    return ask_all(endpoint, bodies, env, BOUNDS)


def text_of(one: Exchange) -> str:
    """All that it says."""
    return one.reasoning + one.content


def failures(found: Sequence[Exchange]) -> list[str]:
    """Requests that brought no whole answer. Pure."""
    return [one.error or "the stream ended before its end mark" for one in found if one.error or not one.done]


NEAREST: Final = 5
"""Tokens that the server names at each place, with how probable each was."""
WHOLE: Final = 4 << 20
"""Bytes of an answer that does not stream."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Token:
    """A token of an answer. ``near``: the natural logarithm of the probability of it, and of those that came near."""

    text: str
    near: Mapping[str, float]

    def above(self, other: str) -> float:
        """Nats by which this token was above another; without end for one that is not among the best."""
        return self.near[self.text] - self.near.get(other, -inf)


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """A greedy answer. ``tokens`` is empty where the server names none; ``error`` where there is no answer."""

    text: str = ""
    tokens: tuple[Token, ...] = ()
    error: str = ""


def greedy_answer(endpoint: Endpoint, env: Mapping[str, str], prompt: str, tokens: int) -> Answer:
    """One greedy answer, in one piece, with its tokens and those that came near."""
    asked = payload(
        endpoint.model, prompt, tokens, {"seed": 1, "stream": False, "logprobs": True, "top_logprobs": NEAREST}
    )
    del asked["stream_options"]
    url = f"{endpoint.url}/chat/completions"
    try:
        with page(url, endpoint.headers, env, seconds=BOUNDS.silent, direct=endpoint.direct, sent=asked) as reply:
            body, status = reply.raw.read(WHOLE, decode_content=True), reply.status_code
        said = json.loads(body)
    except (requests.RequestException, HTTPError) as error:
        return Answer(error=f"the connection broke: {error}"[:300])
    except (ValueError, RecursionError):
        return Answer(error="its answer is no JSON")
    if status != 200 or not isinstance(said, dict):
        return Answer(error=f"it answered {status}: {message_of(said) if isinstance(said, dict) else said}"[:300])
    return _answer(said)


def _answer(said: Mapping[str, Any]) -> Answer:
    """The answer of a document. Pure."""
    try:
        choice = said["choices"][0]
        message = choice["message"]
        reasoning = message.get("reasoning_content") or message.get("reasoning") or ""
        text = str(reasoning) + str(message.get("content") or "")
    except (KeyError, IndexError, TypeError, AttributeError):
        return Answer(error="its answer has no message")
    try:
        tokens = tuple(
            Token(
                text=str(one["token"]),
                near={str(each["token"]): float(each["logprob"]) for each in (*one["top_logprobs"], one)},
            )
            for one in choice["logprobs"]["content"]
        )
    except (KeyError, TypeError, ValueError, OverflowError):  # it names none
        tokens = ()
    return Answer(text=text, tokens=tokens)


@dataclass(frozen=True, kw_only=True, slots=True)
class Parting:
    """Where two answers part. ``gap``: nats between the two tokens, by the server that held them furthest apart."""

    words: str
    gap: float | None = None
    """None: a server does not name its tokens, or one answer ends where the other goes on."""


def parted(ours: Answer, theirs: Answer) -> Parting | None:
    """Where two answers part; None when they are the same. Pure."""
    if (at := parting(ours.text, theirs.text)) is None:
        return None
    pairs = zip(ours.tokens, theirs.tokens, strict=False)
    found = next((pair for pair in enumerate(pairs) if pair[1][0].text != pair[1][1].text), None)
    if found is None:
        return Parting(words=f"character {at} of {len(ours.text)}")
    number, (one, other) = found
    gap = max(one.above(other.text), other.above(one.text))
    apart = f"{gap:.2f} nats apart" if gap < inf else f"and one server has not both among its {NEAREST} best"
    return Parting(words=f"token {number + 1}: {one.text!r} or {other.text!r}, {apart}", gap=gap)


def parting(one: str, other: str) -> int | None:
    """The character at which two answers part; None when they are the same. Pure."""
    if one == other:
        return None
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def guarded(exchange: Exchange, *, forced: bool) -> str:
    """What the guard finds wrong in an answer; empty when nothing is."""
    watch = StreamWatch(guard_limits(), forced=forced)
    watch.feed(exchange.reasoning, "reasoning")
    watch.feed(exchange.content)
    found = watch.judge(exchange.ending)
    return f"{found.verdict}: {found.why}" if found.verdict.bad else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Speed:
    """Tokens a second of answers that were asked at once."""

    at_once: int
    decode: float
    first_token: float
    prefill: float


def speed(endpoint: Endpoint, env: Mapping[str, str], at_once: int, prompt: int, tokens: int) -> Speed | str:
    """Decode and prefill of requests that differ from the first word on; a sentence where it cannot be measured."""
    salt = time.monotonic_ns()
    prompts = [f"{salt + at} {long_prompt(prompt)}" for at in range(at_once)]
    found = ask(endpoint, env, prompts, tokens, {"ignore_eos": True, "min_tokens": tokens})
    if wrong := failures(found):
        return wrong[0]
    if any(one.usage is None or not one.usage.completion or len(one.arrived) < 2 for one in found):
        return "the server counts no tokens, or sends an answer in one piece"
    first = min(one.arrived[0] for one in found)
    latest, end = max(one.arrived[0] for one in found), max(one.arrived[-1] for one in found)
    count = sum(one.usage.completion - 1 for one in found if one.usage and one.usage.completion)
    read = sum(one.usage.prompt or 0 for one in found if one.usage)
    return Speed(
        at_once=at_once, decode=count / max(end - first, 1e-9), first_token=latest, prefill=read / max(latest, 1e-9)
    )
