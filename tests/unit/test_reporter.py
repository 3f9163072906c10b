"""The reporter without a terminal: plain lines, a sign of life, estimates, and failures that look like failures."""

import re
import time

import pytest

from gb10.core.reporter import QUIET, Reporter, Task, clock, remaining


@pytest.mark.parametrize(
    ("elapsed", "done", "total", "seconds"),
    [
        (10, 0, 0, None),
        (10, 0, 100, None),
        (10, 9, 100, None),
        (10, 10, 100, 90),
        (60, 75, 100, 20),
        (60, 100, 100, None),
    ],
)
def test_the_rest_takes_as_long_as_the_speed_so_far_says(
    elapsed: float, done: float, total: float, seconds: float | None
) -> None:
    assert remaining(elapsed, done, total) == seconds


@pytest.mark.parametrize(("seconds", "text"), [(9.9, "0:09"), (190, "3:10"), (3725, "1:02:05")])
def test_clock(seconds: float, text: str) -> None:
    assert clock(seconds) == text


@pytest.mark.parametrize(("unit", "total", "amount"), [("B", 40e6, "10 of 40 MB"), ("files", 40, "10 of 40 files")])
def test_a_line_of_progress(unit: str, total: float, amount: str) -> None:
    task = Task("compile", unit, total, done=total / 4, note="norm.cu", started=time.monotonic() - 30.5)
    assert task.text() == f"compile  {amount}  norm.cu  0:30  about 1:31 left"


def test_a_task_that_ended_and_one_that_failed_differ(capsys: pytest.CaptureFixture[str]) -> None:
    reporter = Reporter({})
    with reporter.task("one"):
        pass
    with pytest.raises(ValueError, match="x"), reporter.task("two"):
        raise ValueError("x")
    with pytest.raises(KeyboardInterrupt), reporter.task("three"):
        raise KeyboardInterrupt
    lines = capsys.readouterr().err.splitlines()
    ends = [re.sub(r"\d+\.\d s$", "N s", line) for line in lines[1::2]]  # a busy machine takes a while
    assert ends == ["one  N s", "two  failed after N s", "three  interrupted after N s"]
    assert [timing.name for timing in reporter.timings] == ["one"]


def test_a_silent_task_still_shows_that_it_runs(capsys: pytest.CaptureFixture[str]) -> None:
    reporter = Reporter({}, interval=0.05)
    with reporter.task("compile", 40, "files") as task:
        reporter.update(task, 2, 40, "norm.cu")
        said, deadline = "", time.monotonic() + 60
        while len(re.findall(r"^compile  2 of 40 files  norm\.cu  0:\d\d$", said, re.MULTILINE)) < 2:
            assert time.monotonic() < deadline, said
            time.sleep(0.01)
            said += capsys.readouterr().err
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1].startswith("compile  2 of 40 files  ")


def test_quiet_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    reporter = Reporter({}, verbosity=QUIET, interval=0.01)
    with reporter.task("compile"):
        time.sleep(0.05)
    assert capsys.readouterr().err == ""


class Known:
    def share(self) -> str:
        return "31 % of all work"

    def left(self) -> str:
        return "about 10:00 left in all"


def test_what_was_measured_beats_the_count_of_files() -> None:
    task = Task("compile", "files", 46, outlook=Known(), done=2)
    assert (task.amount(), task.left()) == ("31 % of all work  2 of 46 files", "about 10:00 left in all")


def test_a_note_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    reporter = Reporter({"NO_COLOR": "1"})
    for _ in range(3):
        reporter.say_once("no Docker at the default socket")
    assert capsys.readouterr().err.count("no Docker") == 1
