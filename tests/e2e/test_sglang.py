"""SGLang's image, by the command that README names; half an hour when nothing of it is in the store."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from gb10.containers.connection import Engine
from gb10.core.fields import requirement_name
from gb10.image.lock.lockfile import load_recipe
from gb10.image.plan.catalog import ROOT
from tests.e2e.image import KERNELS, build, run_python, unmet

pytestmark = pytest.mark.e2e
RECIPE = ROOT / "recipes/images/sglang.yaml"


@pytest.fixture(scope="module")
def image() -> dict[str, object]:
    return build("--engine", "sglang", "--arch", "12.1f")


@pytest.fixture(scope="module")
def python(engine: Engine, image: dict[str, object], emulator: Path) -> Callable[..., str]:
    tags = image["tags"]
    assert isinstance(tags, list)
    return partial(run_python, engine, tags[-1], emulator)


def test_the_image_is_proven_and_named_by_its_key(image: dict[str, object]) -> None:
    codes, tags = image["gpu_code"], image["tags"]
    assert isinstance(codes, dict)
    assert isinstance(tags, list)
    assert codes["damaged"] == 0
    assert codes["native"] >= 30  # ours, and sglang-kernel's
    assert tags[-1].startswith("gb10/sglang:0.5.23-cu130-sm121f-")


def test_the_same_again_is_a_hit_with_the_same_digest(image: dict[str, object]) -> None:
    again = build("--engine", "sglang", "--arch", "12.1f")
    assert (again["hit"], again["digest"]) == (True, image["digest"])


def test_every_kernel_loads_in_the_image_under_qemu(python: Callable[..., str]) -> None:
    found = json.loads(python("-c", KERNELS).splitlines()[-1])
    assert "fp4_quantization_120f" in found["loaded"]
    assert found["version"].startswith("0.7.2+gb10.")


def test_the_server_starts_as_far_as_its_help(python: Callable[..., str]) -> None:
    """By the module that its users call: torch, FlashInfer and SGLang are imported. A model needs the GPU."""
    assert "--attention-backend" in python("-m", "sglang.launch_server", "--help")


def test_pip_finds_every_requirement_met(python: Callable[..., str]) -> None:
    known = [requirement_name(one.requirement) for one in load_recipe(RECIPE).overrides]
    known += ["nvidia-cusparselt-cu13"]  # its WHEEL says manylinux2014_sbsa
    assert not [line for line in unmet(python) if not any(name in line for name in known)]
