"""A self-test goes on: what was checked stays, what the user stopped counts for nothing, what crashed counts."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gb10.core.reporter import Reporter
from gb10.core.store import Store
from gb10.errors import UsageError
from gb10.image.context import Context
from gb10.image.plan.catalog import ROOT, Catalog
from gb10.serving.benchmark.launcher import Launched
from gb10.serving.selftest.cleaning import Cleaner
from gb10.serving.selftest.folder import JOURNAL, Folder
from gb10.serving.selftest.outcome import (
    Figure,
    MachineFacts,
    NotCheckedError,
    Outcome,
    Report,
    StepReport,
    holds,
    unchecked,
)
from gb10.serving.selftest.scene import Scene, SelftestRequest
from gb10.serving.selftest.step_running import run_steps
from gb10.serving.selftest.step_table import Step

Run = Callable[[Scene], Outcome]


def stopped(_scene: Scene) -> Outcome:
    """The user presses Ctrl-C."""
    raise KeyboardInterrupt


def crashed(_scene: Scene) -> Outcome:
    """The program ends, and says nothing."""
    raise SystemExit


def good(_scene: Scene) -> Outcome:
    return holds("fine", {"limits.sm-count": Figure(48)})


def never(_scene: Scene) -> Outcome:
    raise AssertionError("it ran")


def ran(path: Path, show: Callable[[StepReport], None] | None = None, **steps: Run) -> Report:
    """A run of steps that need nothing, which goes on with the folder when it is there."""
    ctx = Context(env={}, store=Store(path / "store"), reporter=Reporter({}, verbosity=-1), catalog=Catalog(ROOT))
    scene = Scene(
        ctx=ctx, asked=SelftestRequest(), folder=folder(path), work=path / "work", machine=MachineFacts(arch="aarch64")
    )
    table = [Step(id=name, title=name, need="machine", budget_s=20, quick_s=20, run=run) for name, run in steps.items()]
    return run_steps(scene, table, quick=False, resume=True, show=show, unasked={})


def folder(path: Path) -> Folder:
    return Folder(path / "r", Cleaner([]), {})


def results(path: Path) -> dict[str, str]:
    document = json.loads((path / "r/report.json").read_text(encoding="utf-8"))
    return {one["id"]: one["result"] for one in document["steps"]}


def test_a_step_that_held_before_holds_in_the_report_of_a_run_that_was_stopped_before_it(tmp_path: Path) -> None:
    ran(tmp_path, one=lambda _: unchecked("no GPU"), two=good)
    with pytest.raises(KeyboardInterrupt):
        ran(tmp_path, one=stopped, two=never, three=never)
    assert results(tmp_path) == {"one": "not checked", "two": "holds", "three": "not checked"}
    document = json.loads((tmp_path / "r/report.json").read_text(encoding="utf-8"))
    assert document["machine"]["sm_count"] == 48
    assert "interrupted before its end" in document["steps"][0]["why"]


def test_two_crashes_count_whatever_the_user_stopped_meanwhile(tmp_path: Path) -> None:
    for run, end in ((crashed, SystemExit), (stopped, KeyboardInterrupt), (crashed, SystemExit)):
        with pytest.raises(end):
            ran(tmp_path, one=run)
    for _ in range(2):  # and it stays so
        report = ran(tmp_path, one=never)
        assert "ended twice in this step" in report.steps[0].outcome.why


def test_a_step_that_ended_between_two_crashes_crashed_twice(tmp_path: Path) -> None:
    for run in (crashed, lambda _: unchecked("stopped after its 20 s"), crashed):
        try:
            ran(tmp_path, one=run)
        except SystemExit:
            continue
    assert "ended twice in this step" in ran(tmp_path, one=never).steps[0].outcome.why


def test_stopping_between_two_steps_takes_no_crash_from_the_next_one(tmp_path: Path) -> None:
    def stop(_step: StepReport) -> None:
        raise KeyboardInterrupt

    with pytest.raises(SystemExit):
        ran(tmp_path, one=good, two=crashed)
    with pytest.raises(KeyboardInterrupt):
        ran(tmp_path, one=good, two=never, show=stop)
    assert folder(tmp_path).earlier()[1]["two"] == 1


def test_a_user_who_stops_a_step_often_may_go_on(tmp_path: Path) -> None:
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            ran(tmp_path, one=stopped)
    assert results(tmp_path) == {"one": "not checked"}
    assert ran(tmp_path, one=good).steps[0].outcome.why == "fine"


def test_a_folder_of_an_older_release_goes_on(tmp_path: Path) -> None:
    """Its steps do not say whether somebody asked for them: nobody wrote down others."""
    ran(tmp_path, one=good)
    journal = tmp_path / "r" / JOURNAL
    text = journal.read_text(encoding="utf-8")
    assert '"asked": true, ' in text
    journal.write_text(text.replace('"asked": true, ', ""), encoding="utf-8")
    report = ran(tmp_path, one=never)
    assert replace(report.steps[0], seconds=0) == replace(folder(tmp_path).earlier()[0]["one"], seconds=0)
    assert report.steps[0].asked


@pytest.mark.parametrize(
    "line",
    [
        '{"step": {}}',
        '{"step": {"id": "one", "title": "t", "result": "perhaps", "why": "", "seconds": 1, "budget_s": 1, '
        '"claims": {}, "evidence": []}}',
        '{"step": {"id": "one", "title": "t", "result": "holds", "why": "", "seconds": "1", "budget_s": 1, '
        '"claims": [], "evidence": []}}',
    ],
)
def test_a_line_that_is_no_step_is_named(line: str, tmp_path: Path) -> None:
    ran(tmp_path, one=good)
    with (tmp_path / "r" / JOURNAL).open("a", encoding="utf-8") as journal:
        journal.write(f"{line}\n")
    with pytest.raises(UsageError, match=r"line 4 of .*is no step") as error:
        ran(tmp_path, one=never)
    assert "--out" in str(error.value.hint)


def test_a_server_that_ended_is_not_asked(tmp_path: Path) -> None:
    ctx = Context(env={}, store=Store(tmp_path / "store"), reporter=Reporter({}, verbosity=-1), catalog=Catalog(ROOT))
    machine = MachineFacts(arch="aarch64")
    scene = Scene(ctx=ctx, asked=SelftestRequest(), folder=folder(tmp_path), work=tmp_path / "work", machine=machine)
    with pytest.raises(NotCheckedError, match="no server was started"):
        _ = scene.running
    scene.server = Launched(url="http://127.0.0.1:1")
    assert scene.running is scene.server
    scene.server = Launched(url="http://127.0.0.1:1", ended=lambda: "killed by signal 9")
    with pytest.raises(NotCheckedError, match="the server has ended: killed by signal 9"):
        _ = scene.running
