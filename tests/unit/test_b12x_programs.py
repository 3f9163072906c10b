"""b12x's kernels: which jobs are taken, and what is told of those that are not ready."""

import base64
import pickle
import sys
from concurrent.futures import Future
from types import ModuleType, SimpleNamespace

import pytest

from gb10.image.plan.catalog import ROOT
from tests.unit.test_refusal import loaded


class Enough(BaseException):
    """Stands for the end of an operator's call."""


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    shape_ops, device = ModuleType("shape_ops"), ModuleType("b12x.preparation.device")
    shape_ops.__dict__["Enough"] = Enough
    device.__dict__["detect_device"] = lambda _: SimpleNamespace(identity="gb10")
    for module in (shape_ops, ModuleType("b12x"), ModuleType("b12x.preparation"), device):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return loaded("b12x_programs", ROOT / "gb10/image/explain/child/b12x_programs.py")


def plan(pinned: object = None, fails: bool = False) -> SimpleNamespace:
    def jobs(config: object, device: SimpleNamespace) -> tuple[object, ...]:
        if fails:
            raise ValueError("no such tile")
        return ((config, device.identity),)

    found = SimpleNamespace(default="default", pinned=pinned)
    contract = SimpleNamespace(configure=lambda _, *, device, override: found)
    return SimpleNamespace(component_id="gemm.mm", contract=contract, query=1, override=None, _compile_jobs=jobs)


def prepare(programs: ModuleType, one: SimpleNamespace) -> None:
    with pytest.raises(Enough):
        programs._prepare(one)


def done(value: object = None, error: Exception | None = None) -> Future[object]:
    future: Future[object] = Future()
    if error:
        future.set_exception(error)
    else:
        future.set_result(value)
    return future


def test_a_plan_gives_the_jobs_of_its_default_or_pinned_configuration_once(programs: ModuleType) -> None:
    for _ in range(2):
        prepare(programs, plan())
    prepare(programs, SimpleNamespace(variants={1: plan(), 8: plan(pinned="pinned")}))
    jobs = [pickle.loads(job) for job in programs.ASKED]  # noqa: S301 - of this test
    assert jobs == [("default", "gb10"), ("pinned", "gb10")]
    assert programs.LEFT == []


def test_a_plan_without_jobs_is_left_with_its_reason(programs: ModuleType) -> None:
    prepare(programs, plan(fails=True))
    assert programs.LEFT == [{"what": "CuTe DSL b12x gemm.mm", "why": "ValueError: no such tile"}]
    assert programs.ASKED == {}


def test_a_kernel_that_two_jobs_share_is_one_row_with_its_job(programs: ModuleType) -> None:
    row = {"compiler": "cute", "kernel": "b12x gemm.dense", "folder": "ab/ab0"}
    for job in (b"one", b"two"):
        programs.ASKED[job] = "gemm.mm"
        programs._take(job, done(([row], None)))
    assert [{**row, "lookup": base64.b64encode(b"one").decode()}] == programs.MADE


@pytest.mark.parametrize(
    ("future", "why"),
    [
        (done(error=OSError("no room")), "OSError: no room"),
        (done(([], LookupError("no file"))), "LookupError: no file"),
    ],
)
def test_a_job_that_did_not_end_well_is_left(programs: ModuleType, future: Future[object], why: str) -> None:
    programs.ASKED[b"one"] = "gemm.mm"
    programs._take(b"one", future)
    assert [{"what": "CuTe DSL b12x gemm.mm", "why": why}] == programs.LEFT
    assert programs.MADE == []


def test_jobs_whose_process_died_are_tried_again_alone(programs: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = list[tuple[list[bytes], int]]()

    def compile_jobs(request: object, jobs: list[bytes], many: int) -> list[bytes]:
        runs.append((jobs, many))
        return [job for job in jobs if job == b"huge" or (len(jobs) > 1 and job == b"unlucky")]

    programs.ASKED.update({b"small": "a", b"unlucky": "b", b"huge": "c"})
    monkeypatch.setattr(programs, "_compile", compile_jobs)
    monkeypatch.setattr(programs, "_room", lambda: 2)
    programs.make({})
    assert runs[0][1] <= 2
    assert runs[1:] == [([b"unlucky"], 1), ([b"huge"], 1)]
    assert [row["what"] for row in programs.LEFT] == ["CuTe DSL b12x c"]
