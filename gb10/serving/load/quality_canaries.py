"""Canaries as a judge: batches of eight, each request with a code of its own and a question."""

import uuid
from collections.abc import Mapping
from typing import Final

from gb10.serving.guard.canary import make_canaries
from gb10.serving.load.canary_batch import ask_canaries
from gb10.serving.load.endpoint import Endpoint
from gb10.serving.load.guard_data import guard_facts, guard_limits
from gb10.serving.load.quality import Quality

BATCHES: Final = 8
AT_ONCE: Final = 8
TOKENS: Final = 512


def by_canaries(endpoint: Endpoint, env: Mapping[str, str]) -> Quality:
    """How many of 64 canaries are answered right."""
    run, limits = uuid.uuid4().hex, guard_limits()
    right = 0
    for number in range(BATCHES):
        canaries = make_canaries(AT_ONCE, guard_facts(), f"{run} {number}")
        batch = ask_canaries(endpoint, canaries, env, limits, max_tokens=TOKENS, extra={}, when="quality")
        right += batch.right
    return Quality(judge="canaries", what="code and fact", points=right, of=BATCHES * AT_ONCE)
