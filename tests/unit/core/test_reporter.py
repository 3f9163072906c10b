"""The reporter without a terminal: plain lines, a sign of life, estimates, and failures that look like failures."""

import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from gb10.core import reporter as core_reporter
from gb10.core.reporter import QUIET, Reporter, Task, clock, remaining, terminal
from tests.hang import until


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
        said: list[str] = []

        def is_said_again() -> bool:
            said.append(capsys.readouterr().err)
            return len(re.findall(r"^compile  2 of 40 files  norm\.cu  \d:\d\d$", "".join(said), re.MULTILINE)) > 1

        until(is_said_again, "a second line of the task")
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


def test_a_task_of_unknown_size_has_no_amount() -> None:
    assert Task("fetch", "B", 0).amount() == Task("fetch", "files", 0).amount() == ""
    assert Task("fetch", "B", 4e6, done=1e6).amount() == "1 of 4 MB"


def test_quiet_prints_nothing_and_verbose_prints_details(capsys: pytest.CaptureFixture[str]) -> None:
    printed = {}
    for verbosity in (QUIET, 0, 1):
        reporter = Reporter({}, verbosity=verbosity)
        reporter.say("said")
        reporter.detail("detail")
        reporter.say_once("once")
        reporter.say_once("once")
        printed[verbosity] = capsys.readouterr().err.split()
    assert printed == {QUIET: [], 0: ["said", "once"], 1: ["said", "detail", "once"]}


def test_a_hit_is_kept_once_and_a_failed_task_not_at_all() -> None:
    reporter = Reporter({}, verbosity=QUIET)
    reporter.hit("a")
    reporter.hit("a")
    with reporter.task("b"):
        time.sleep(0.01)
    first, second = reporter.timings
    assert (first.name, first.hit, first.seconds) == ("a", True, 0.0)
    assert (second.name, second.hit) == ("b", False)
    assert second.seconds >= 0.01
    assert first.start <= second.start


def test_progress_is_told_once_an_interval(capsys: pytest.CaptureFixture[str]) -> None:
    reporter = Reporter({}, interval=3600)
    with reporter.task("fetch", 4e6) as task:
        reporter.advance(task, 1e6, "a")
        reporter.advance(task, 1e6)
        assert (task.done, task.note) == (2e6, "a")
        assert capsys.readouterr().err == "fetch …\n"
        task.said -= 3600
        reporter.advance(task, 1e6)
        assert "fetch  3 of 4 MB  a" in capsys.readouterr().err
        reporter.update(task, 4e6, 4e6, "b")
        assert (task.done, task.note) == (4e6, "b")
        assert capsys.readouterr().err == ""


def test_colours_are_asked_for_and_refused() -> None:
    assert terminal({"FORCE_COLOR": "1"}, stderr=True).is_terminal
    assert not terminal({"FORCE_COLOR": "1", "NO_COLOR": "1"}, stderr=True).is_terminal
    assert terminal({"NO_COLOR": "1"}, stderr=True).no_color
    assert not terminal({}, stderr=True).is_terminal
    assert terminal({}, stderr=True).width == 160


def test_a_long_wait_is_told_even_when_quiet(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core_reporter, "LONG_WAIT", 0.01)
    for verbosity in (QUIET, 0):
        with Reporter({}, verbosity=verbosity).waiting_for("layer")("process 7"):
            time.sleep(0.2)
        assert capsys.readouterr().err == "layer: waiting for process 7\n"
    monkeypatch.setattr(core_reporter, "LONG_WAIT", 60)
    with Reporter({}, verbosity=QUIET).waiting_for("layer")("process 7"):
        pass
    assert capsys.readouterr().err == ""


@contextmanager
def screen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], str]]:
    """A terminal; what was written to it since the last look, without its control sequences."""
    master, slave = os.openpty()
    os.set_blocking(master, False)
    with open(slave, "w", encoding="utf-8") as terminal_end:  # noqa: PTH123 # a descriptor
        monkeypatch.setattr(sys, "stderr", terminal_end)

        def shown() -> str:
            terminal_end.flush()
            text = b""
            with suppress(BlockingIOError):
                while block := os.read(master, 65536):
                    text += block
            return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text.decode())

        yield shown
    os.close(master)


def test_a_terminal_shows_bars_that_go_when_their_tasks_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    with screen(monkeypatch) as shown:
        reporter = Reporter({"COLUMNS": "120"}, interval=0.0)
        with reporter.task("outer", 4, "files") as outer:
            reporter.update(outer, 1, 4, "norm.cu")
            progress = reporter._progress  # what is on the screen
            assert progress is not None
            with reporter.task("inner"):
                assert [(task.description, task.total) for task in progress.tasks] == [("outer", 4), ("inner", None)]
            assert [task.description for task in progress.tasks] == ["outer"]
            assert reporter._progress is progress
            assert progress.tasks[0].completed == 1
            assert progress.tasks[0].fields["note"].startswith("1 of 4 files  ")
            assert progress.tasks[0].fields["note"].endswith("  norm.cu")
        assert reporter._progress is None
        text = shown()
    assert re.search(r"inner  \d+\.\d s", text)
    assert re.search(r"outer  1 of 4 files  norm\.cu|outer  1 of 4 files  \d+\.\d s", text)
    assert "outer …" not in text


def test_a_quiet_terminal_shows_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    with screen(monkeypatch) as shown:
        reporter = Reporter({"COLUMNS": "120"}, verbosity=QUIET)
        with reporter.task("work", 4, "files") as task:
            reporter.update(task, 1, 4)
            assert reporter._progress is None
        assert shown() == ""


@pytest.mark.parametrize(
    ("env", "width", "colour", "forced"),
    [
        ({}, 160, True, False),
        ({"COLUMNS": "77"}, 77, True, False),
        ({"NO_COLOR": "1"}, 160, False, False),
        ({"FORCE_COLOR": "1"}, 160, True, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, 160, False, False),
    ],
)
def test_a_pipe_is_wide_and_colours_are_the_users_wish(
    env: dict[str, str], width: int, colour: bool, forced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    if "COLUMNS" in env:
        monkeypatch.setenv("COLUMNS", env["COLUMNS"])
    console = terminal(env, stderr=True)
    assert (console.width, not console.no_color, console.is_terminal) == (width, colour, forced)
