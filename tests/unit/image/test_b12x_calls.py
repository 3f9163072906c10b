"""b12x's kernels without a declaration: the function of b12x that compiles one, and its arguments, are the job."""

import sys
from types import ModuleType, SimpleNamespace

import pytest

from tests.unit.engine_child import CHILD, fresh, stand_in

B12X = """
import functools

@functools.cache
def get_kernel(rows, *, kind):
    rows = max(rows, 1)
    return compile(object(), spec="micro")

def any_number(*rows):
    return compile(rows, spec="other")

def launch(tensor):
    return get_kernel(3, kind="silu")

def alone(tensor):
    return compile(tensor, spec="attention")

class Owner:
    def method(self):
        return compile(self, spec="method")
"""


def create(factory: str, **named: object) -> tuple[str, dict[str, object]]:
    """As b12x: a job has numbers and names."""
    if any(not isinstance(value, str | int) for value in named.values()):
        raise TypeError("metadata only")
    return factory, named


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    def add_job(job: tuple[str, dict[str, object]], component: str) -> tuple[str, str]:
        return job[0], component

    def leave(name: str, error: Exception) -> None:
        left.append((name, str(error)))

    left = list[tuple[str, str]]()
    return stand_in(monkeypatch, f"{CHILD}.b12x.jobs", add_job=add_job, leave=leave, jobs_of=None, left=left)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch, jobs: ModuleType) -> ModuleType:
    stand_in(monkeypatch, "b12x._lib.compile_pool", CompileJob=SimpleNamespace(create=create))
    stand_in(monkeypatch, f"{CHILD}.shared.known_values", known_within=None)
    stand_in(monkeypatch, f"{CHILD}.b12x.worker")
    fresh(monkeypatch, "b12x.attention")
    return fresh(monkeypatch, "b12x.calls")


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch, calls: ModuleType) -> ModuleType:
    """A module of b12x's shape: its compiler is what ``calls`` puts in its place."""
    module = ModuleType("b12x.moe")
    monkeypatch.setitem(sys.modules, module.__name__, module)

    def compile(target: object, *, spec: str) -> object:
        return calls._note_kernel(
            None, target, compile_spec=SimpleNamespace(kernel_id=spec), cache_key=f"key of {spec}"
        )

    module.__dict__["compile"] = compile
    exec(B12X, module.__dict__)  # noqa: S102 - the text above
    return module


def test_the_nearest_function_with_numbers_and_names_is_the_job(
    calls: ModuleType, jobs: ModuleType, engine: ModuleType
) -> None:
    engine.launch(object())
    assert calls.threads_of(("b12x.moe:get_kernel", "micro")) == {"key of micro": 0}
    assert jobs.left == []


@pytest.mark.parametrize("function", ["alone", "any_number"])
def test_a_kernel_that_no_such_function_makes_is_left(
    calls: ModuleType, jobs: ModuleType, engine: ModuleType, function: str
) -> None:
    engine.__dict__[function](object())
    assert [why for _, why in jobs.left] == ["no function of b12x makes it from numbers and names alone"]
    assert calls.KEYS == {}


def test_a_method_is_none_either(calls: ModuleType, jobs: ModuleType, engine: ModuleType) -> None:
    engine.Owner().method()
    assert [name for name, _ in jobs.left] == ["method"]


def test_the_threads_that_b12x_asks_for_are_wanted_of_the_kernel(calls: ModuleType, engine: ModuleType) -> None:
    engine.launch(object())
    kernel = SimpleNamespace(__b12x_programs__=[SimpleNamespace(key="key of micro")])
    assert all(calls._note_threads(kernel, threads) for threads in (512, 256))
    assert calls.threads_of(("b12x.moe:get_kernel", "micro")) == {"key of micro": 512}


def test_what_stands_for_a_kernel_answers_as_one_does(calls: ModuleType) -> None:
    arguments, _ = calls.Kernel().generate_execution_args(1, 2)
    assert arguments is None
