"""A batch of canaries sent at once, their streams judged like any other, then by nonce and fact."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb
from typing import Final

from gb10.core.installation import ROOT
from gb10.serving.guard.batch import judged_together
from gb10.serving.guard.canary import AnswerKind, Canary, CanaryAnswer, Fact, judge_canary, read_facts
from gb10.serving.guard.finding import Judgement, Verdict, worst
from gb10.serving.guard.judging import StreamWatch
from gb10.serving.guard.limits import Limits, read_limits
from gb10.serving.load_generator.endpoint import Endpoint
from gb10.serving.load_generator.exchange import Exchange
from gb10.serving.load_generator.stream_client import Bounds, ask_all, payload

FEWEST: Final = 4
UNLIKELY: Final = 0.01
TOUCHED: Final = 0.2
"""Share of canaries with code or fact; below it, of FEWEST or more, answers do not depend on prompts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryBatch:
    """The canaries of one moment, in the order in which they were sent."""

    when: str = "alone"
    """alone, before the load, beside its warm-up, after it."""
    answers: tuple[CanaryAnswer, ...]
    judgements: tuple[Judgement, ...]
    exchanges: tuple[Exchange, ...]

    @property
    def right(self) -> int:
        """How many were answered right."""
        return sum(one.answered is AnswerKind.RIGHT for one in self.answers)

    @property
    def touched(self) -> int:
        """How many answers have the code or the fact, at least: they depend on their prompts."""
        return sum(one.nonce or one.fact for one in self.answers)


def ask_canaries(
    endpoint: Endpoint,
    canaries: Sequence[Canary],
    env: Mapping[str, str],
    limits: Limits,
    *,
    max_tokens: int,
    extra: Mapping[str, object],
    when: str,
    bounds: Bounds | None = None,
) -> CanaryBatch:
    """Send them all at once and judge what comes back."""
    bodies = [payload(endpoint.model, canary.prompt(), max_tokens, extra) for canary in canaries]
    exchanges = ask_all(endpoint, bodies, env, bounds)
    nonces = [canary.nonce for canary in canaries]
    answers = tuple(
        judge_canary(
            canary, one.content, one.reasoning, one.finish_reason, nonces, failed=bool(one.error) or not one.done
        )
        for canary, one in zip(canaries, exchanges, strict=True)
    )
    alone = [_judged(one, limits) for one in exchanges]
    together = judged_together(alone, [one.reasoning + one.content for one in exchanges], limits, canaries_right=None)
    return CanaryBatch(when=when, answers=answers, judgements=together, exchanges=exchanges)


def _judged(exchange: Exchange, limits: Limits) -> Judgement:
    watch = StreamWatch(limits)
    watch.feed(exchange.reasoning, "reasoning")
    watch.feed(exchange.content)
    return watch.judge(exchange.ending)


def merge_batches(batches: Sequence[CanaryBatch]) -> CanaryBatch:
    """Several batches as one."""
    return CanaryBatch(
        answers=tuple(one for batch in batches for one in batch.answers),
        judgements=tuple(one for batch in batches for one in batch.judgements),
        exchanges=tuple(one for batch in batches for one in batch.exchanges),
    )


def canary_verdict(batch: CanaryBatch, alone: CanaryBatch) -> tuple[Verdict, str]:
    """What a batch of canaries says, held against the same model's answers one at a time. Pure."""
    judgements = (*batch.judgements, *alone.judgements)
    streams = worst([one.verdict for one in judgements])
    why = next((one.why for one in judgements if one.verdict is streams), "")
    wrong = "" if streams.bad else served_wrongly(batch, alone)
    if wrong:
        return Verdict.GARBAGE, wrong
    count = len(batch.answers)
    if not streams.bad and batch.right < count:
        names = " or ".join(
            dict.fromkeys(one.answered for one in batch.answers if one.answered is not AnswerKind.RIGHT)
        )
        return Verdict.SUSPECT, f"{count - batch.right} of {count} canaries are {names}; {_followed(alone)}"
    return streams, why


def served_wrongly(batch: CanaryBatch, alone: CanaryBatch) -> str:
    """The sentence that says so, or nothing. Pure.

    Answers with the code of another request; answers with neither code nor fact, from a model that always has one of
    them alone and is mostly right, or from all; more of those, or more wrong answers, than the same model's answers
    alone make likely.
    """
    count, kinds = len(batch.answers), Counter(one.answered for one in batch.answers)
    wrong = kinds[AnswerKind.WRONG]
    every, touched = count + len(alone.answers), batch.touched + alone.touched
    untouched = sum(one.answered is AnswerKind.WRONG and not (one.nonce or one.fact) for one in batch.answers)
    if kinds[AnswerKind.CROSSED]:
        return f"{kinds[AnswerKind.CROSSED]} of {count} answers have the code of another request"
    if every >= FEWEST and touched < TOUCHED * every:
        return f"{every - touched} of {every} canaries have neither code nor answer, one at a time or together"
    # Alone the model always has code or fact, and is right more often than not: a weak model has luck.
    reliable = alone.touched == len(alone.answers) < 2 * alone.right
    if untouched and (reliable or _unlikely(untouched, count, alone, alone.touched)):
        return f"{untouched} of {count} canaries have neither code nor answer; {_followed(alone)}"
    if wrong and _unlikely(wrong, count, alone, alone.right):
        return f"{wrong} of {count} canaries are wrong; {_followed(alone)}"
    return ""


def _unlikely(hits: int, count: int, alone: CanaryBatch, good: int) -> bool:
    """Whether so many failures are no luck, when all but ``good`` answers failed alone.

    The share is Laplace's: 8 of 8 good ones do not prove that the model never fails.
    """
    total = len(alone.answers)
    return at_least(hits, count, (total - good + 1) / (total + 2)) < UNLIKELY


def at_least(hits: int, count: int, share: float) -> float:
    """The probability of ``hits`` or more of ``count``, each with the probability ``share`` (binomial). Pure."""
    return sum(comb(count, one) * share**one * (1 - share) ** (count - one) for one in range(hits, count + 1))


def _followed(alone: CanaryBatch) -> str:
    return f"one at a time {alone.right} of {len(alone.answers)} were right"


FOLDER = ROOT / "recipes/guard"


def guard_limits() -> Limits:
    """The limits. Raises UsageError."""
    return read_limits((FOLDER / "limits.toml").read_text(encoding="utf-8"), "recipes/guard/limits.toml")


def guard_facts() -> tuple[Fact, ...]:
    """The facts. Raises UsageError."""
    return read_facts((FOLDER / "facts.toml").read_text(encoding="utf-8"), "recipes/guard/facts.toml")
