"""Readers of vLLM's message queue: the release's own module in two processes, over real shared memory and libzmq."""

import pytest

from benches.shm_wait import MODULE, WINDOW, Waiting, measured
from tests.integration.patches.releases import original, patched

pytestmark = pytest.mark.integration

PATCH = "0006-shm-readers-park"
RELEASES = ("0.28.0", "0.33.0")
STEP = 0.03
"""Seconds between two messages, as a model on GB10 takes for a token."""
CLOSE = 0.0003
"""Seconds after which libzmq does not know yet, on any machine, that the notification before was taken."""


def waiting(text: str, *, gap: float, count: int, window: str | None = None) -> Waiting:
    return measured(text, gap=gap, count=count, env={WINDOW: window} if window else None)


@pytest.mark.parametrize("release", RELEASES)
def test_a_reader_that_waits_for_steps_leaves_its_core(release: str) -> None:
    sides = original("vllm", release, MODULE), patched("vllm", release, PATCH, MODULE)
    before, after = (waiting(text, gap=STEP, count=40) for text in sides)
    # CPU seconds of a reader that loops depend on what else runs: it yields to that. benches/shm_wait.py measures them.
    assert before.parked < 0.3
    assert after.parked > 0.9
    assert after.cpu < 0.2  # 2 ms of 30 are 7 %, the rest is reading
    assert (before.lost, after.lost) == (0, 0)


def test_the_variable_brings_upstreams_wait_back() -> None:
    assert waiting(patched("vllm", "0.33.0", PATCH, MODULE), gap=STEP, count=40, window="1").parked < 0.3


@pytest.mark.slow
@pytest.mark.parametrize("release", RELEASES)
def test_a_short_wait_alone_loses_notifications(release: str) -> None:
    """A reader that parks at once: with upstream's high water mark it sleeps on until it looks by itself."""
    upstream = original("vllm", release, MODULE)
    parks = upstream.replace("busy_loop_s: float = 1,", "busy_loop_s: float = 0,")
    assert parks != upstream
    # each takes 5 s, and beside other work a message may come too late to be dropped
    assert any(waiting(parks, gap=CLOSE, count=12).lost for _ in range(8))
    assert waiting(patched("vllm", release, PATCH, MODULE), gap=CLOSE, count=300, window="0").lost == 0


def test_a_wait_that_is_no_number_is_an_error() -> None:
    text = patched("vllm", "0.33.0", PATCH, MODULE)
    with pytest.raises(Exception, match="exited with 1"):
        waiting(text, gap=CLOSE, count=1, window="soon")
