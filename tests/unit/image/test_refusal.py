"""What counts as the engine's own refusal: its statement that raises, and no mistake within or below it."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from gb10.image.explain.child.shared.engine_errors import raising_package

ENGINE = """
def refuses():
    raise ValueError("needs capability 10.0")

def asserts():
    assert False, "needs capability 10.0"

def again():
    try:
        refuses()
    except ValueError as error:
        raise RuntimeError("no kernel") from error

def breaks():
    return None.shape

def calls(function):
    return function()
"""


def loaded(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(name="engine")
def small_engine(tmp_path: Path) -> ModuleType:
    (tmp_path / "layers.py").write_text(ENGINE, encoding="utf-8")
    return loaded("sglang.layers", tmp_path / "layers.py")


def error_of(function: Callable[..., Any], *args: object) -> Exception:
    try:
        function(*args)
    except Exception as error:
        return error
    raise AssertionError("it did not fail")


def mistake() -> None:
    raise ValueError("a mistake of the caller")


def test_what_the_engine_raises_is_its_refusal(engine: ModuleType) -> None:
    own = [raising_package(error_of(function)) for function in (engine.refuses, engine.asserts, engine.again)]
    assert own == ["sglang"] * 3


def test_what_breaks_in_the_engine_or_is_raised_by_others_is_not(engine: ModuleType) -> None:
    assert raising_package(error_of(engine.breaks)) != "sglang"
    assert raising_package(error_of(engine.calls, mistake)) != "sglang"
    assert raising_package(error_of(engine.calls, None)) != "sglang"
    assert raising_package(error_of(mistake)) != "sglang"
