"""An endpoint is asked: canaries alone and together, the speed of answers, and whether tokens come at all."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from gb10.core.fetch import redact
from gb10.serving.doctor.diagnosing import EndpointOutcomes
from gb10.serving.doctor.doctor_rule import Outcome
from gb10.serving.guard.canary import make_canaries
from gb10.serving.guard.finding import Verdict
from gb10.serving.load_generator.canary_batch import (
    CanaryBatch,
    ask_canaries,
    canary_verdict,
    guard_facts,
    guard_limits,
    merge_batches,
)
from gb10.serving.load_generator.endpoint import Endpoint
from gb10.serving.load_generator.exchange import Exchange
from gb10.serving.load_generator.server_pages import counters, running
from gb10.serving.load_generator.stream_client import Bounds, ask_all, payload

ALONE: Final = 4
TOGETHER: Final = 8
SPEEDS: Final = 6
TOKENS: Final = 128
CANARY_TOKENS: Final = 256
BOUNDS: Final = Bounds(connect=10.0, silent=120.0, whole=240.0)
"""The first request after a start may compile kernels, so that it is silent for a while."""
APART: Final = 1.3
"""Two speeds differ by so much."""
GAP: Final = 3.0
"""The gap between two speeds is so many times what is left within them."""
PROMPT: Final = "Count from 1 to 200 in words, one number a line."


@dataclass(frozen=True, kw_only=True, slots=True)
class Probe:
    """What an endpoint answered: canaries one at a time, and at once; then streams of one prompt."""

    alone: CanaryBatch
    together: CanaryBatch
    speeds: tuple[Exchange, ...] = ()
    running: float | None = None
    """Requests that the server runs, after all were asked; None where it does not say."""


def probe_endpoint(endpoint: Endpoint, env: Mapping[str, str], seed: str) -> EndpointOutcomes:
    """What an endpoint shows. Its failures are outcomes, not errors."""
    return EndpointOutcomes(url=redact(endpoint.url), outcomes=outcomes_of(_ask(endpoint, env, seed)))


def _ask(endpoint: Endpoint, env: Mapping[str, str], seed: str) -> Probe:
    def canaries(count: int, when: str) -> CanaryBatch:
        made = make_canaries(count, guard_facts(), f"{seed} {when}")
        return ask_canaries(
            endpoint, made, env, guard_limits(), max_tokens=CANARY_TOKENS, extra={}, when=when, bounds=BOUNDS
        )

    first = canaries(1, "first")
    if silent(first.exchanges):
        return Probe(alone=first, together=first, running=running(counters(endpoint, env)))
    alone = merge_batches([first, *(canaries(1, f"alone {number}") for number in range(1, ALONE))])
    together = canaries(TOGETHER, "together")
    body = payload(endpoint.model, PROMPT, TOKENS)
    speeds = tuple(exchange for _ in range(SPEEDS) for exchange in ask_all(endpoint, [body], env, BOUNDS))
    return Probe(alone=alone, together=together, speeds=speeds, running=running(counters(endpoint, env)))


def outcomes_of(probe: Probe) -> dict[Outcome, str]:
    """What the rules ask for, with what was seen. Pure."""
    found: dict[Outcome, str] = {}
    asked = (*probe.alone.exchanges, *probe.together.exchanges, *probe.speeds)
    if silent(asked[:1]) and probe.running:
        found["stalled"] = f"{probe.running:g} requests run, no token came in {BOUNDS.silent:.0f} s"
    verdict, why = canary_verdict(probe.alone, CanaryBatch(answers=(), judgements=(), exchanges=()))
    if verdict is Verdict.GARBAGE:
        found["garbage-alone"] = f"one request at a time: {why}"
    else:
        verdict, why = canary_verdict(probe.together, probe.alone)
        if verdict is Verdict.GARBAGE:
            found["garbage-together"] = f"{TOGETHER} requests at once: {why}"
    modes = two_modes([rate for one in probe.speeds if (rate := one.steps_per_second)])
    if modes:
        found["two-modes"] = f"{modes[0]:.1f} and {modes[1]:.1f} steps a second"
    return found


def silent(exchanges: Sequence[Exchange]) -> bool:
    """Whether a request was taken, and no text came."""
    return any(one.status == 200 and not one.steps and bool(one.error) for one in exchanges)


def two_modes(rates: Sequence[float]) -> tuple[float, float] | None:
    """The means of two groups of rates that a wide gap parts, each with two rates or more; else None. Pure."""
    ordered = sorted(rates)
    gaps = [later - before for before, later in pairwise(ordered)]
    if len(ordered) < 4:
        return None
    at = max(range(1, len(gaps) - 1), key=gaps.__getitem__) + 1
    slow, fast = ordered[:at], ordered[at:]
    within = max(slow[-1] - slow[0], fast[-1] - fast[0])
    if gaps[at - 1] <= GAP * within or fast[0] < APART * slow[-1]:
        return None
    return sum(slow) / len(slow), sum(fast) / len(fast)
