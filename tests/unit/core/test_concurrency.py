"""Threads that end together; a child that shows no sign of life."""

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from itertools import count
from pathlib import Path

import pytest

from gb10.core.concurrency import (
    IdleTimeout,
    LateError,
    Stop,
    map_parallel,
    moved,
    run_all,
    run_in_background,
    watched,
    within,
)
from tests.hang import PATIENCE


@pytest.mark.parametrize("most", [1, 2, 3, 9])
def test_at_most_so_many_work_at_once_and_results_keep_their_order(most: int) -> None:
    lock, now, peak, together = threading.Lock(), 0, 0, threading.Barrier(min(most, 6))

    def work(item: int) -> int:
        nonlocal now, peak
        with lock:
            now += 1
            peak = max(peak, now)
        together.wait(30)  # fewer threads would wait for ever
        with lock:
            now -= 1
        return item * item

    assert map_parallel(Stop(), work, range(6), most) == [0, 1, 4, 9, 16, 25]
    assert peak <= most
    assert map_parallel(Stop(), work, (), most) == []


def test_after_a_failure_no_further_item_is_begun() -> None:
    begun: list[int] = []

    def work(item: int) -> None:
        begun.append(item)
        raise ValueError(item)

    with pytest.raises(ValueError, match="0"):
        map_parallel(Stop(), work, range(50), 1)
    assert begun == [0]


def test_the_error_behind_a_stop_is_raised_not_the_stop() -> None:
    stop, stopped = Stop(), threading.Event()

    def follower() -> None:
        with stop.ends(stopped.set):
            assert stopped.wait(PATIENCE)
        stop.check()

    def leader() -> None:
        stop.set()
        time.sleep(0.05)  # the follower ends first
        raise ValueError("the cause")

    with pytest.raises(ValueError, match="the cause"), run_in_background(stop, leader):
        follower()
    for error in (CancelledError(), ValueError("the cause")):
        with pytest.raises(type(error)):
            run_all(Stop(), [raising(error)])
    gate = threading.Barrier(2)
    with pytest.raises(ValueError, match="the cause"):
        run_all(Stop(), [raising(CancelledError(), gate.wait), raising(ValueError("the cause"), gate.wait)])


def raising(error: BaseException, first: Callable[[], object] = lambda: None) -> Callable[[], None]:
    def act() -> None:
        first()
        raise error

    return act


def test_a_child_whose_sign_changes_is_left_alone_and_a_silent_one_is_ended_once() -> None:
    ended = threading.Event()
    signs = count()
    with watched(7, IdleTimeout(seconds=0.02, sign=lambda pid: (pid, next(signs))), ended.set) as silent:
        assert not silent.wait(0.2)
    assert not ended.is_set()
    ends: list[int] = []
    with watched(7, IdleTimeout(seconds=0.02, sign=lambda pid: pid), lambda: ends.append(1)) as silent:
        start = time.monotonic()
        assert silent.wait(PATIENCE)
        assert time.monotonic() - start >= 0.01
        time.sleep(0.05)
    assert ends == [1]
    with watched(7, None, ended.set) as silent:
        assert not silent.wait(0.05)
    assert not ended.is_set()


def test_what_a_process_reads_and_writes_is_a_sign_and_a_dead_one_gives_none(tmp_path: Path) -> None:
    before = moved(os.getpid())
    (tmp_path / "f").write_bytes(b"x" * (1 << 20))
    assert moved(os.getpid()) - before in (16, 17)
    (tmp_path / "f").read_bytes()
    assert moved(os.getpid()) - before in (32, 33)
    assert moved(1 << 30) == -1


def test_no_time_left_is_late_and_not_for_ever() -> None:
    with pytest.raises(LateError):
        within(-5, threading.Event().wait)
