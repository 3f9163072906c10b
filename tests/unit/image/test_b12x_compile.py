"""b12x's kernels: which jobs are taken, and what is told of those that are not ready."""

import base64
import pickle
from concurrent.futures import Future
from types import ModuleType, SimpleNamespace

import pytest

from tests.unit.engine_child import CHILD, fresh, stand_in


class Enough(BaseException):
    """Stands for the end of an operator's call."""


@pytest.fixture
def compile_jobs(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    def detect_device(_: str) -> SimpleNamespace:
        return SimpleNamespace(identity="gb10")

    stand_in(monkeypatch, "b12x.preparation.device", detect_device=detect_device)
    stand_in(monkeypatch, f"{CHILD}.shared.shape_ops", Enough=Enough)
    for name in ("calls", "worker"):
        stand_in(monkeypatch, f"{CHILD}.b12x.{name}")
    fresh(monkeypatch, "b12x.jobs")
    return fresh(monkeypatch, "b12x.compile")


def plan(pinned: object = None, fails: bool = False) -> SimpleNamespace:
    def jobs(config: object, device: SimpleNamespace) -> tuple[object, ...]:
        if fails:
            raise ValueError("no such tile")
        return ((config, device.identity),)

    found = SimpleNamespace(default="default", pinned=pinned)
    contract = SimpleNamespace(configure=lambda _, *, device, override: found)
    return SimpleNamespace(component_id="gemm.mm", contract=contract, query=1, override=None, _compile_jobs=jobs)


def prepare(compile_jobs: ModuleType, one: SimpleNamespace) -> None:
    with pytest.raises(Enough):
        compile_jobs._prepare(one)


def done(value: object = None, error: Exception | None = None) -> Future[object]:
    future: Future[object] = Future()
    if error:
        future.set_exception(error)
    else:
        future.set_result(value)
    return future


def test_a_plan_gives_the_jobs_of_its_default_or_pinned_configuration_once(compile_jobs: ModuleType) -> None:
    for _ in range(2):
        prepare(compile_jobs, plan())
    prepare(compile_jobs, SimpleNamespace(variants={1: plan(), 8: plan(pinned="pinned")}))
    jobs = [pickle.loads(job) for job in compile_jobs.REQUESTED]  # noqa: S301 - of this test
    assert jobs == [("default", "gb10"), ("pinned", "gb10")]
    assert compile_jobs.LEFT == []


def test_a_plan_without_jobs_is_left_with_its_reason(compile_jobs: ModuleType) -> None:
    prepare(compile_jobs, plan(fails=True))
    assert compile_jobs.LEFT == [{"what": "CuTe DSL b12x gemm.mm", "why": "ValueError: no such tile"}]
    assert compile_jobs.REQUESTED == {}


def test_a_kernel_that_two_jobs_share_is_one_row_with_its_job(compile_jobs: ModuleType) -> None:
    row = {"compiler": "cute", "kernel": "b12x gemm.dense", "folder": "ab/ab0"}
    for job in (b"one", b"two"):
        compile_jobs.REQUESTED[job] = "gemm.mm"
        compile_jobs._note_outcome(job, done(([row], None)))
    assert [{**row, "lookup": base64.b64encode(b"one").decode()}] == compile_jobs.MADE


@pytest.mark.parametrize(
    ("future", "why"),
    [
        (done(error=OSError("no room")), "OSError: no room"),
        (done(([], LookupError("no file"))), "LookupError: no file"),
    ],
)
def test_a_job_that_did_not_end_well_is_left(compile_jobs: ModuleType, future: Future[object], why: str) -> None:
    compile_jobs.REQUESTED[b"one"] = "gemm.mm"
    compile_jobs._note_outcome(b"one", future)
    assert [{"what": "CuTe DSL b12x gemm.mm", "why": why}] == compile_jobs.LEFT
    assert compile_jobs.MADE == []


def test_jobs_whose_process_died_are_tried_again_alone(
    compile_jobs: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = list[tuple[list[bytes], int]]()

    def run_jobs(request: object, jobs: list[bytes], many: int) -> list[bytes]:
        runs.append((jobs, many))
        return [job for job in jobs if job == b"huge" or (len(jobs) > 1 and job == b"unlucky")]

    compile_jobs.REQUESTED.update({b"small": "a", b"unlucky": "b", b"huge": "c"})
    monkeypatch.setattr(compile_jobs, "_compile", run_jobs)
    monkeypatch.setattr(compile_jobs, "available", lambda: 2 * compile_jobs.WORKER)
    compile_jobs.make({})
    assert runs[0][1] <= 2
    assert runs[1:] == [([b"unlucky"], 1), ([b"huge"], 1)]
    assert [row["what"] for row in compile_jobs.LEFT] == ["CuTe DSL b12x c"]
