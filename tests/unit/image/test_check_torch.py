"""The check ``torch``: built with the CUDA of the recipe, or, in other images, with one that knows the GPU."""

import pytest

from gb10.image.proof.checks.torch import CHECK
from gb10.inside.scan.installed import cuda_of
from tests.unit.made_up_images import distribution, image


@pytest.mark.parametrize(
    ("cuda", "recipe", "told"),
    [
        ("13.0", "13.0", []),
        ("12.8", "13.0", ["torch 2.14.0 for CUDA 12.8"]),
        ("13.2", "13.0", ["torch 2.14.0 for CUDA 13.2"]),
        ("none", "13.0", ["torch 2.14.0 without CUDA"]),
        ("none", "", ["torch 2.14.0 without CUDA"]),
        ("13.2", "", []),
        ("12.8", "", ["torch 2.14.0 for CUDA 12.8"]),
        ("", "13.0", []),
    ],
)
def test_a_torch(cuda: str, recipe: str, told: list[str]) -> None:
    found = CHECK.judge(image(distribution("torch", "2.14.0", cuda=cuda), cuda=recipe))
    assert [problem.found for problem in found] == told


@pytest.mark.parametrize(
    ("recipe", "expected"), [("13.0", "torch for CUDA 13.0"), ("", "torch for CUDA 12.9 or newer")]
)
def test_what_is_expected_of_a_torch(recipe: str, expected: str) -> None:
    (problem,) = CHECK.judge(image(distribution("torch", "2.14.0", cuda="12.0"), cuda=recipe))
    assert problem.expected == expected
    assert CHECK.judge(image(distribution("torch", "2.14.0", cuda="12.9"))) == []
    assert not CHECK.judge(image(distribution("torch", "2.14.0", cuda="12.10")))  # as numbers, not as text


@pytest.mark.parametrize(
    ("text", "cuda"),
    [
        ("__version__ = '2.14.0+cu130'\ncuda: Optional[str] = '13.0'\nhip: Optional[str] = None\n", "13.0"),
        ("cuda: Optional[str] = None\n", "none"),
        ("cuda = None", "none"),
        ('debug = False\ncuda = "12.8"', "12.8"),
        ("__version__ = '2.0'", ""),
    ],
)
def test_versions_as_torch_writes_them(text: str, cuda: str) -> None:
    assert cuda_of(text) == cuda
