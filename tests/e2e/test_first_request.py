"""An image for one model: the engine's own look-ups find the kernels of its first request, every compiler forbidden."""

import json
from pathlib import Path

import pytest

from gb10.containers.connection import Engine
from gb10.image.plan.catalog import ROOT
from tests.e2e.image import build, run_python

pytestmark = pytest.mark.e2e
INSIDE = Path(__file__).parent / "inside"
OWN = [INSIDE / name for name in ("triton_ready.py", "modules_ready.py", "b12x_ready.py")]
PLANNED = ROOT / "gb10/image/explain/child/b12x/planned.py"
SCRIPTS = {**{path: f"/{path.name}" for path in OWN}, PLANNED: "/b12x_planned.py"}
CONFIGS = ROOT / "tests/unit/data/explain"
CASES = [("vllm", "dense-bf16", 20, 0), ("sglang", "dense-bf16", 5, 5), ("sglang", "fp8-block", 5, 7)]
"""An engine, a model's config, the fewest kernels of Triton, the fewest modules that the engine compiles itself."""

EXPERTS = ["moe-backend=b12x", "linear-backend=b12x", "attention-backend=B12X", "block-size=128", "max-num-seqs=8"]
B12X = [
    ("fp8-block", ["linear-backend=b12x"], 15, []),
    ("moe-nvfp4", EXPERTS, 20, ["tp_moe.dynamic", "tp_moe.micro_direct", "paged.forward", "paged.merge"]),
]
"""A model's config, how it is served, the fewest kernels of b12x, and how the names of some end."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[1]}")
def test_every_kernel_of_the_rehearsal_is_found_and_another_is_not(
    engine: Engine, emulator: Path, tmp_path: Path, case: tuple[str, str, int, int]
) -> None:
    served, config, kernels, modules = case
    (tmp_path / "config.json").write_bytes((CONFIGS / f"{config}.json").read_bytes())
    tags = build("--engine", served, "--for-model", str(tmp_path))["tags"]
    assert isinstance(tags, list)
    text = run_python(engine, tags[-1], emulator, "/triton_ready.py", files=SCRIPTS)
    found = json.loads(text.splitlines()[-1])
    assert (found["stopped"], found["wrong"]) == (None, [])
    assert found["found"] == found["kernels"] >= kernels
    assert found["refused"] == "Triton compiles"
    own = found.get("own", {"modules": 0, "loaded": 0, "wrong": [], "refused": "forbids compiling"})
    assert own["modules"] == own["loaded"] >= modules
    assert (own["wrong"], own["refused"]) == ([], "forbids compiling")


@pytest.mark.parametrize("case", B12X, ids=lambda case: f"{case[0]}-{case[1][0]}")
def test_b12x_finds_its_kernels_of_cute_dsl_by_its_own_keys(
    engine: Engine, emulator: Path, tmp_path: Path, case: tuple[str, list[str], int, list[str]]
) -> None:
    config, options, kernels, names = case
    (tmp_path / "config.json").write_bytes((CONFIGS / f"{config}.json").read_bytes())
    served = [word for option in options for word in ("--served-with", option)]
    tags = build("--for-model", str(tmp_path), *served)["tags"]
    assert isinstance(tags, list)
    text = run_python(engine, tags[-1], emulator, "/triton_ready.py", files=SCRIPTS)
    told = json.loads(text.splitlines()[-1])
    found = told["b12x"]
    assert (told["stopped"], found["wrong"]) == (None, [])
    assert found["kernels"] >= kernels
    assert found["loaded"] >= found["kernels"]
    assert found["refused"] == "CuTe DSL compiles"
    assert [name for name in names if not any(one.endswith(name) for one in found["names"])] == []
