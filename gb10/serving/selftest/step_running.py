"""Steps run in their order, each within its budget; the report is written after each of them."""

import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from types import FrameType
from typing import Final

from gb10 import __version__
from gb10.errors import Gb10Error, ServeError, VerifyError
from gb10.serving.selftest.outcome import NotCheckedError, Outcome, Report, Result, StepReport, broken, unchecked
from gb10.serving.selftest.scene import MeasuredElsewhereError, Scene
from gb10.serving.selftest.server_steps import log_of
from gb10.serving.selftest.step_table import STARTS, STEPS, Step

EACH_S: Final = 1.0
"""A signal that comes just before a thread begins to wait does not wake it; the next one does."""
AGAIN_S: Final = 60.0
"""Seconds after which a step that took the interrupt for something else is interrupted once more."""
TWICE: Final = 2


class OverrunError(BaseException):
    """A step used up its budget. No ``except Exception`` may take it for a failure."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Interrupt this thread, as Ctrl-C would, after ``seconds``: what a step started, ends as it does then."""

    raised: list[float] = []

    def late(_number: int, _frame: FrameType | None) -> None:
        if not raised or time.monotonic() - raised[-1] > AGAIN_S:
            raised.append(time.monotonic())
            raise OverrunError

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds, EACH_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def outcome_of(step: Step, scene: Scene, budget: float) -> Outcome:
    """What a step found. What it could not do is "not checked"; a wrong result is never."""
    try:
        with limited(budget):
            return step.run(scene)
    except OverrunError:
        return unchecked(f"stopped after its {budget:.0f} s")
    except MeasuredElsewhereError as error:
        return unchecked(str(error), error.claims)
    except NotCheckedError as error:
        return unchecked(str(error))
    except (VerifyError, ServeError) as error:
        scene.keep(f"{step.id}-error.txt", str(error))
        return broken(error.message)
    except Gb10Error as error:
        scene.keep(f"{step.id}-error.txt", str(error))
        return unchecked(": ".join(filter(None, (error.message, (error.where or "").partition("\n")[0]))))


def _checked(step: Step, done: Mapping[str, StepReport]) -> bool:
    """Whether an earlier run gave an answer."""
    return step.id in done and done[step.id].outcome.result is not Result.UNCHECKED


def _note_sms(scene: Scene, done: Mapping[str, StepReport]) -> None:
    """What an earlier run measured of the machine itself."""
    for step in done.values():
        count = step.outcome.claims.get("limits.sm-count")
        if count is not None and isinstance(count.value, int):
            scene.machine = replace(scene.machine, sm_count=count.value)


def _waiting(steps: Sequence[Step], done: Mapping[str, StepReport], *, quick: bool) -> Iterator[StepReport]:
    """Steps that did not end, as a report has them whose run was interrupted; what was checked before stays."""
    for one in steps:
        if _checked(one, done):
            yield done[one.id]
        else:
            yield _not_run(one, "interrupted before its end: --resume goes on", quick=quick)


def _others(unasked: Mapping[str, str], *, quick: bool) -> Iterator[StepReport]:
    for one in STEPS:
        if one.id in unasked:
            yield replace(_not_run(one, f"not asked for: {unasked[one.id]}", quick=quick), asked=False)


def _not_run(step: Step, why: str, *, quick: bool) -> StepReport:
    budget = step.budget(quick=quick)
    return StepReport(id=step.id, title=step.title, outcome=unchecked(why), seconds=0.0, budget_s=budget)


def run_steps(
    scene: Scene,
    steps: Sequence[Step],
    *,
    quick: bool,
    resume: bool,
    show: Callable[[StepReport], None] | None,
    unasked: Mapping[str, str],
) -> Report:
    """Run them; ``show`` gets each as it ends. With ``resume``, what was checked before is kept.

    ``unasked``: why each other step does not run. The report has every step, from the first on.
    """
    began, when = time.monotonic(), datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    done, begun = scene.folder.earlier() if resume else ({}, {})
    found: list[StepReport] = []
    _note_sms(scene, done)
    scene.wanted = frozenset(one.id for one in steps if not _checked(one, done))
    spare = 0.0  # seconds that starts of servers left of theirs

    def report() -> Report:
        return Report(
            gb10=__version__,
            when=when,
            machine=scene.machine,
            image=scene.image,
            steps=[*found, *_waiting(steps[len(found) :], done, quick=quick), *_others(unasked, quick=quick)],
            wall_s=time.monotonic() - began,
        )

    try:
        for step in steps:
            budget = step.budget(quick=quick)
            if step.id in STARTS:
                budget += spare
            # A later step that still has to run may go on with what this one does: the server, its answers.
            if _checked(step, done) and not any(step.id in one.after and not _checked(one, done) for one in steps):
                before = done[step.id]
                found.append(before)
                if show:
                    show(before)
                continue
            started = time.monotonic()
            scene.evidence = []
            begins = begun.get(step.id, 0) < TWICE
            if not begins:
                outcome = unchecked(
                    f"the machine, or this program, ended twice in this step; --step {step.id} and another --out run it"
                )
            else:
                scene.folder.begin(step.id)
                with scene.ctx.reporter.task(f"{step.id}: {step.title}, at most {budget:.0f} s"):
                    outcome = outcome_of(step, scene, budget)
            ended = StepReport(
                id=step.id,
                title=step.title,
                outcome=outcome,
                seconds=time.monotonic() - started,
                budget_s=budget,
                evidence=tuple(scene.evidence),
            )
            if step.id in STARTS:
                spare = max(0.0, budget - ended.seconds)
            found.append(ended)
            if begins:  # else its ends without a word would be forgotten
                scene.folder.end(ended)
            if show:
                show(ended)
            scene.folder.write(report())
    except KeyboardInterrupt:
        scene.folder.stop()
        scene.folder.write(report())
        raise
    finally:
        if scene.server is not None:
            scene.keep(scene.log_name, log_of(scene))
            scene.end_server()
    return report()
