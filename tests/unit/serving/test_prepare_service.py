"""A recipe is loaded, rendered and sized once on its way to a service: counted where the functions are called."""

import sys
from collections import Counter
from types import FrameType

import pytest

from gb10.cli import main

COUNTED = ("load_model_recipe", "render_recipe", "estimate", "lint_case")


def calls_of(*command: str) -> Counter[str]:
    """How often a command calls each of these functions of gb10."""
    found: Counter[str] = Counter()

    def count(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_name in COUNTED and "/gb10/models/" in code.co_filename:
            found[code.co_name] += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        assert main(command) == 0
    finally:
        sys.setprofile(before)
    return found


@pytest.mark.parametrize(
    "command",
    [
        ("run", "qwen3-0.6b", "--dry-run", "--no-gpus"),
        ("run", "qwen3-0.6b", "--dry-run", "--image", "gb10/vllm:1"),
        ("recipe", "render", "qwen3-0.6b", "--as", "docker"),
        ("recipe", "lint", "qwen3-0.6b"),
    ],
)
def test_a_recipe_is_rendered_and_sized_once(command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    found = calls_of(*command)
    assert (found["load_model_recipe"], found["render_recipe"], found["estimate"]) == (1, 1, 1)
    assert found["lint_case"] == (1 if "lint" in command else 0)
    assert capsys.readouterr().out


def test_a_model_that_does_not_fit_is_started_when_the_user_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """It has the cap and the guard, and no limit of its container: what was estimated may be wrong."""
    large = ("run", "deepseek-v4-flash", "--dry-run", "--set", "tensor_parallel=1")
    assert main(large) == 2
    told = capsys.readouterr().err
    assert "does not fit into a node's memory" in told
    assert "hint: run --even-if-too-large" in told
    assert main((*large, "--even-if-too-large")) == 0
    call, said = capsys.readouterr()
    assert "its model does not fit by our estimate, so its containers have no limit" in said
    assert "PYTORCH_ALLOC_CONF=per_process_memory_fraction:" in call
    assert " --memory " not in call
    assert main((*large, "--even-if-too-large", "--memory", "90")) == 0
    assert " --memory 96636764160 " in capsys.readouterr().out
