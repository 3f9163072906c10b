"""Whose an error of an engine is: the engine's own words, the config's readers', or something that explain has not."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

from gb10.image.explain.child.shared.engine_errors import stopped, unknown_parts
from gb10.image.plan.catalog import ROOT
from tests.unit.image.test_refusal import error_of, loaded

LAYERS = """
def refuses(words="head size 80 is not supported"):
    raise ValueError(words)

def imports():
    import nobody_has_this_module

def later():
    try:
        imports()
    except ImportError as error:
        raise RuntimeError("could not import Gemma4Processor") from error

def breaks():
    return {}["hidden_size"]

def no_gpu():
    raise RuntimeError("Cannot access accelerator device when none is available.")
"""


@pytest.fixture(name="engine")
def small_engine(tmp_path: Path) -> ModuleType:
    (tmp_path / "layers.py").write_text(LAYERS, encoding="utf-8")
    return loaded("vllm.layers", tmp_path / "layers.py")


def why(function: Callable[..., Any], *given: object) -> dict[str, Any]:
    found: dict[str, Any] = stopped(error_of(function, *given), "vllm")
    return found


def test_what_the_engine_raises_is_its_own(engine: ModuleType) -> None:
    found = why(engine.refuses)
    assert (found["whose"], found["missing"]) == ("engine", None)
    assert found["stopped"].startswith("ValueError: head size 80 is not supported (")


def test_a_missing_module_is_named_however_deep_it_lies(engine: ModuleType) -> None:
    found = why(engine.later)
    assert (found["whose"], found["missing"]) == ("explain", "nobody_has_this_module")
    assert "No module named 'nobody_has_this_module'" in found["stopped"]


def test_an_error_within_pydantic_is_the_engine_s(engine: ModuleType) -> None:
    class Config(BaseModel):
        model: str

        @field_validator("model")
        @classmethod
        def check(cls, value: str) -> str:
            engine.refuses(f"{value} has heads of 80")
            return value

    found = why(lambda: Config(model="mine"))
    assert found["whose"] == "engine"
    assert found["stopped"].startswith("ValueError: mine has heads of 80")


@pytest.mark.parametrize(
    ("function", "whose"), [("no_gpu", "explain"), ("breaks", "unknown")], ids=["no GPU is here", "a key is missing"]
)
def test_what_is_no_refusal(engine: ModuleType, function: str, whose: str) -> None:
    assert why(getattr(engine, function))["whose"] == whose


@pytest.mark.parametrize(
    "words",
    [
        "'>' not supported between instances of 'Nothing' and 'int'",
        "the answer of a package that explain does not have",
        "Cannot copy out of meta tensor; no data!",
        "Torch not compiled with CUDA enabled",
    ],
)
def test_what_a_stand_in_makes_is_explain_s(engine: ModuleType, words: str) -> None:
    assert why(engine.refuses, words)["whose"] == "explain"


def test_the_model_s_folder_is_not_in_the_words(engine: ModuleType) -> None:
    error = error_of(engine.refuses, "/store/explain-1/0 has no tokenizer")
    assert stopped(error, "vllm", "/store/explain-1/0")["stopped"].startswith("ValueError: MODEL has no tokenizer")


@pytest.mark.parametrize(
    ("config", "lacks", "own"),
    [
        ({"architectures": ["A"], "model_type": "a"}, [], False),
        ({"architectures": ["B", "A"], "model_type": "a"}, [], False),
        ({"architectures": ["B"], "model_type": "a"}, ["B"], False),
        ({"architectures": ["A"], "model_type": "b"}, ["model_type b"], False),
        ({"architectures": ["A"], "model_type": "b", "auto_map": {"AutoConfig": "c.C"}}, [], True),
        ({"architectures": ["B"], "model_type": "b", "auto_map": {}}, ["B", "model_type b"], False),
        ({"architectures": "A", "model_type": 3}, [], False),
        ({}, [], False),
    ],
)
def test_what_a_release_does_not_know(config: dict[str, Any], lacks: list[str], own: bool) -> None:
    assert unknown_parts(config, {"A"}, {"a"}) == {"lacks": lacks, "own_code": own}


def test_a_forked_answer_is_a_document() -> None:
    name = "gb10.image.explain.child.shared.fork"
    code = f"from {name} import Forked; print(Forked(lambda one: [one, 'x' * 200000], 3).document()[0])"
    argv = [sys.executable, "-c", f"import sys; sys.path.insert(0, {json.dumps(str(ROOT))}); {code}"]
    assert subprocess.run(argv, capture_output=True, check=True, text=True).stdout == "3\n"


class ValidationError(Exception):
    """An error of pydantic's form, whichever release."""

    def __init__(self, *found: object) -> None:
        super().__init__("2 validation errors")
        self.found = found

    def errors(self) -> list[dict[str, object]]:
        return [{"ctx": {"error": one}} if one else {} for one in self.found]


class OtherError(ValidationError):
    """Another error that has errors."""


def test_only_an_error_within_pydantics_own_is_looked_for() -> None:
    inner = ValueError("the reason")
    assert stopped(ValidationError(None, "text", inner), "vllm")["stopped"].startswith("ValueError: the reason")
    assert stopped(ValidationError(None), "vllm")["stopped"].startswith("ValidationError: 2 validation errors")
    assert stopped(OtherError(inner), "vllm")["stopped"].startswith("OtherError: 2 validation errors")
    named = type("ValidationError", (Exception,), {})("without errors")
    assert stopped(named, "vllm")["stopped"].startswith("ValidationError: without errors")


def test_an_error_that_was_suppressed_is_no_cause() -> None:
    def raising(*, suppressed: bool) -> BaseException:
        try:
            try:
                raise RuntimeError("Torch not compiled with CUDA enabled")
            except RuntimeError as error:
                raise ValueError("odd") from (None if suppressed else error)
        except ValueError as error:
            return error

    assert stopped(raising(suppressed=False), "vllm")["whose"] == "explain"
    assert stopped(raising(suppressed=True), "vllm")["whose"] == "unknown"
    assert stopped(ValueError("x" * 1200), "vllm")["stopped"] == f"ValueError: {'x' * 1000}"
