"""Streams of one batch against each other: identical answers, lockstep, and what canaries say of repetition. Pure."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Final

from gb10.serving.guard.finding import Finding, Judgement, Verdict, worst
from gb10.serving.guard.limits import Limits

PIECE: Final = 8
SAME_RATE: Final = 0.001


def common(one: str, two: str) -> float:
    """Pieces of eight characters of the shorter text that the other has, too: 1 for the same text. Pure."""
    sets = [{text[at : at + PIECE] for at in range(len(text) - PIECE + 1)} for text in (one, two)]
    return len(sets[0] & sets[1]) / max(1, min(map(len, sets)))


def alike(texts: Sequence[str], limits: Limits) -> dict[int, Finding]:
    """A finding for each stream that has another's answer, though their prompts differ; by the stream's place.

    Garbage when more than a quarter of the batch is alike. Fewer may have had nearly the same prompt: suspects.
    """
    long = [place for place, text in enumerate(texts) if len(text) >= limits.alike_from]
    twins: dict[int, tuple[int, float]] = {}
    for one, two in combinations(long, 2):
        share = common(texts[one], texts[two])
        if share >= limits.alike:
            twins.setdefault(one, (two, share))
            twins.setdefault(two, (one, share))
    verdict = Verdict.GARBAGE if len(twins) > len(texts) / 4 else Verdict.SUSPECT
    return {
        own: Finding(
            verdict=verdict,
            sign="alike",
            at=len(texts[own]),
            onset=0,
            what=f"{share:.0%} of the answer is also the answer of stream {other + 1}, to another prompt",
        )
        for own, (other, share) in twins.items()
    }


def judged_together(
    judgements: Sequence[Judgement], texts: Sequence[str], limits: Limits, *, canaries_right: bool | None
) -> tuple[Judgement, ...]:
    """The streams of a batch, judged anew beside each other: different prompts, the same moment.

    ``canaries_right``: False makes a loop garbage: the model's own loops leave its canaries alone. None: not asked.
    """
    same = alike(texts, limits)
    return tuple(
        _again(judgement, same.get(place), canaries_right=canaries_right) for place, judgement in enumerate(judgements)
    )


def _again(judgement: Judgement, same: Finding | None, *, canaries_right: bool | None) -> Judgement:
    findings = judgement.findings
    if canaries_right is False:
        findings = tuple(
            replace(one, verdict=Verdict.GARBAGE, what=f"{one.what}; canaries of the same batch are wrong")
            if one.verdict is Verdict.LOOP
            else one
            for one in findings
        )
    findings = (*findings, *((same,) if same else ()))
    return replace(judgement, findings=findings, verdict=worst([finding.verdict for finding in findings]))


def lockstep(tokens: Sequence[int], reasons: Sequence[str | None], seconds: Sequence[float]) -> str:
    """A hint when four streams or more agree in length, reason and speed; good streams often do. Empty for none."""
    if len(tokens) < 4 or len(set(tokens)) > 1 or len(set(reasons)) > 1 or min(seconds) <= 0:
        return ""
    if (max(seconds) - min(seconds)) / max(seconds) > SAME_RATE:
        return ""
    return f"{len(tokens)} streams ended in lockstep ({tokens[0]} tokens each, at one speed): look at their texts"
