"""Canaries: requests with a nonce to repeat and a fact: fluent nonsense has neither. Pure."""

import random
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gb10.errors import UsageError

WORDS: Final = """
amber basil cedar delta ember flint grove hazel indigo jasper kestrel lotus maple nectar onyx pepper quartz raven
saffron tulip umber velvet willow yarrow zephyr
"""
"""Parts of nonces."""
ASK: Final = (
    "Copy the code below exactly as it is. Then answer the question in one short sentence.\n\nCode: {nonce}\n"
    "Question: {question}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A question with one answer, which every language model of the last years knows."""

    ask: str
    accept: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    """One request of a batch."""

    nonce: str
    fact: Fact

    def prompt(self) -> str:
        """What is sent."""
        return ASK.format(nonce=self.nonce, question=self.fact.ask)


class AnswerKind(StrEnum):
    """How a canary was answered."""

    RIGHT = "right"
    WRONG = "wrong"
    """The nonce or the fact is missing."""
    CROSSED = "crossed"
    """The answer has the nonce of another request."""
    UNFINISHED = "unfinished"
    """The model was still reasoning when its tokens ran out."""
    FAILED = "failed"
    """The request brought no whole answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryAnswer:
    """A canary and how it was answered."""

    canary: Canary
    answered: AnswerKind
    nonce: bool
    fact: bool
    other: str = ""
    """The nonce of another request that the answer has."""


def read_facts(text: str, where: str = "facts.toml") -> tuple[Fact, ...]:
    """The facts of a TOML text. Raises UsageError. Pure."""
    try:
        found = tomllib.loads(text)["fact"]
        facts = tuple(Fact(ask=str(one["ask"]), accept=tuple(map(str, one["accept"]))) for one in found)
    except (tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise UsageError("the canaries' facts are not readable", where=f"{where}: {error}") from error
    if not facts or not all(fact.ask and fact.accept for fact in facts):
        raise UsageError("a fact needs `ask` and `accept`", where=where)
    return facts


def make_canaries(count: int, facts: Sequence[Fact], seed: str) -> tuple[Canary, ...]:
    """``count`` canaries for one batch, nonces all different; the same seed gives the same. Pure."""
    words = WORDS.split()
    rng = random.Random(seed)  # noqa: S311
    facts_in_turn = [fact for _ in range(-(-count // len(facts))) for fact in rng.sample(facts, len(facts))]
    numbers = rng.sample(range(1000, 10_000), count)
    return tuple(
        Canary(nonce=f"{rng.choice(words)}-{number}-{rng.choice(words)}", fact=fact)
        for number, fact in zip(numbers, facts_in_turn, strict=False)
    )


def folded(text: str) -> str:
    """A text without what models change when they copy: case, blanks, hyphens of all sorts, emphasis."""
    return re.sub(r"[\W_]+", "", text.casefold())


def crossed(text: str, own: str, nonces: Sequence[str]) -> str:
    """The nonce of another request that a text has; empty for none."""
    plain = folded(text)
    return next((nonce for nonce in nonces if nonce != own and folded(nonce) in plain), "")


def judge_canary(
    canary: Canary,
    content: str,
    reasoning: str,
    finish_reason: str | None,
    nonces: Sequence[str],
    *,
    failed: bool = False,
) -> CanaryAnswer:
    """How an answer meets its canary; ``nonces``: those of all requests of the batch. Pure."""
    nonce = folded(canary.nonce) in folded(content)
    rest = re.sub(re.escape(canary.nonce), " ", content, flags=re.IGNORECASE)
    fact = any(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", rest, re.IGNORECASE) for word in canary.fact.accept)
    other = crossed(content + reasoning, canary.nonce, nonces)
    if other:
        answered = AnswerKind.CROSSED
    elif nonce and fact:
        answered = AnswerKind.RIGHT
    elif failed:
        answered = AnswerKind.FAILED
    elif finish_reason == "length" and reasoning and not content.strip() and folded(canary.nonce) in folded(reasoning):
        answered = AnswerKind.UNFINISHED
    else:
        answered = AnswerKind.WRONG
    return CanaryAnswer(canary=canary, answered=answered, nonce=nonce, fact=fact, other=other)
