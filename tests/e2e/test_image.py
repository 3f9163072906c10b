"""The whole image, by the command that README names; minutes to an hour, so apart from `make test`."""

import json
import os
import sys
from collections.abc import Callable

import pytest

from gb10.core.fields import requirement_name
from gb10.core.proc import capture
from gb10.image.lock.lockfile import load_lock, load_recipe, lock_path
from gb10.image.plan.catalog import ROOT, Catalog
from gb10.image.plan.options import Options
from gb10.image.plan.steps import applied
from gb10.image.recipe.arch import parse_arch
from tests.e2e.image import KERNELS, build, unmet

pytestmark = pytest.mark.e2e
RECIPE = ROOT / "recipes/images/vllm.yaml"
PATCHED = """
import base64, hashlib, json
from importlib.metadata import distributions
from importlib.util import cache_from_source
found = [one for one in distributions() if one.metadata["Name"] == "vllm"]
wrong = []
for file in found[0].files:
    if file.hash and ".py" in file.suffix:
        value = base64.urlsafe_b64encode(hashlib.sha256(file.locate().read_bytes()).digest()).rstrip(b"=").decode()
        wrong += [str(file)] if value != file.hash.value else []
path = found[0].locate_file("vllm/model_executor/layers/fused_moe/experts/triton_cutlass_moe.py")
code = open(cache_from_source(str(path)), "rb").read()[16:]
print(json.dumps({"version": found[0].version, "distributions": len(found), "wrong": wrong,
                  "switch": b"GB10_CUTLASS_MOE_SMALL_BATCH" in code}))
"""


OPERATOR = """
import json, torch, gb10_kernels
operator = torch.ops.gb10.cutlass_moe_mm.default
empty = torch.empty(0)
try:
    operator(*[empty] * 10, False, False)
except NotImplementedError as error:
    refused = "CPU" in str(error)
print(json.dumps({"version": gb10_kernels.__version__, "schema": str(operator._schema), "refused": refused}))
"""


STRIPPED = """
import ctypes, json, pathlib, sys
import torch
site = pathlib.Path(torch.__file__).parents[1]
found, wrong = [], []
for pattern in json.loads(sys.argv[1]):
    for path in site.glob(pattern):
        found.append(pattern)
        try:
            ctypes.CDLL(str(path))
        except OSError as error:
            wrong.append(f"{path.name}: {error}")
import triton._C.libtriton
print(json.dumps({"found": found, "wrong": wrong}))
"""
"""Loads every library that lost its symbol tables."""


def test_the_image_is_proven_and_named_by_its_key(image: dict[str, object]) -> None:
    assert image["schema"] == "gb10/image/v1"
    codes = image["gpu_code"]
    assert isinstance(codes, dict)
    assert codes["damaged"] == 0
    assert codes["native"] >= 10


def test_the_same_again_is_a_hit_with_the_same_digest(image: dict[str, object]) -> None:
    again = build("--engine", "vllm", "--arch", "12.1f")
    assert (again["hit"], again["digest"]) == (True, image["digest"])


def test_the_same_again_is_a_hit_after_the_private_engine_was_stopped(image: dict[str, object]) -> None:
    capture([sys.executable, str(ROOT / "build.py"), "engine", "down"], env=os.environ)
    again = build("--engine", "vllm", "--arch", "12.1f")
    assert (again["hit"], again["digest"]) == (True, image["digest"])


def test_every_kernel_loads_in_the_image_under_qemu(python: Callable[..., str]) -> None:
    found = json.loads(python("-c", KERNELS).splitlines()[-1])
    assert "fp4_quantization_120f" in found["loaded"]
    assert found["version"].startswith("0.7.2.post1+gb10.")


def test_the_patched_engine_is_what_python_finds(python: Callable[..., str]) -> None:
    """Its version, its RECORD, and the bytecode of the patched file, which is never checked against its source."""
    found = json.loads(python("-c", PATCHED).splitlines()[-1])
    assert found["version"].startswith("0.33.0+gb10.")
    assert found["distributions"] == 1
    assert found["wrong"] == []
    assert found["switch"]


def test_the_operator_of_our_kernels_loads_beside_torch_under_qemu(python: Callable[..., str]) -> None:
    found = json.loads(python("-c", OPERATOR))
    assert found["refused"]
    assert found["version"].startswith("0.1.0+gb10.")
    assert found["schema"].startswith("gb10::cutlass_moe_mm(Tensor($0! -> ) out, Tensor a, Tensor b")


def test_changed_libraries_load_under_qemu(python: Callable[..., str]) -> None:
    """All but those that need the GPU's driver, which a container gets on a Spark alone."""
    options = Options(arch=parse_arch("12.1f"), platform="linux/arm64", build="amd64")
    rules = applied(Catalog(ROOT).slim, options, load_lock(lock_path(RECIPE)).wheels.image["arm64"])
    changed = [one for rule in rules if rule.action != "drop" for one in rule.files.values()]
    patterns = sorted({pattern for one in changed for pattern in one})
    found = json.loads(python("-c", STRIPPED, json.dumps(patterns)).splitlines()[-1])
    assert set(found["found"]) == set(patterns)
    assert [line for line in found["wrong"] if "libcuda.so.1" not in line] == []


def test_pip_finds_every_requirement_met(python: Callable[..., str]) -> None:
    """But for what the recipe overrides, and says why, and for what upstream's own wheels say wrongly of themselves."""
    known = [requirement_name(one.requirement) for one in load_recipe(RECIPE).overrides]
    known += ["nvidia-cusparselt-cu13"]  # its WHEEL says manylinux2014_sbsa
    assert not [line for line in unmet(python) if not any(name in line for name in known)]
