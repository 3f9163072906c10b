"""Which backend vLLM's own oracle picks for FP8 experts in the image, before our patch and after; under qemu."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.patches.releases import original

pytestmark = pytest.mark.e2e
SCRIPT = Path(__file__).parent / "inside/fp8_experts.py"
FILE = "vllm/_custom_ops.py"
VLLM = "VLLM_CUTLASS"
OURS = ("compressed-tensors channel token", "compressed-tensors tensor dynamic")
"""The schemes whose layers allow vLLM's CUTLASS, and that FlashInfer and DeepGEMM leave to it."""
Choices = dict[int, dict[str, str]]


def choices(python: Callable[..., str], *arguments: str, files: dict[Path, str] | None = None) -> Choices:
    """The choice by capability and scheme."""
    output = python("/asked.py", *arguments, files={SCRIPT: "/asked.py", **(files or {})})
    found = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return {one["capability"]: one["chosen"] for one in found}


@pytest.fixture(scope="module")
def after(python: Callable[..., str]) -> Choices:
    return choices(python)


@pytest.fixture(scope="module")
def before(python: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> Choices:
    file = tmp_path_factory.mktemp("upstream") / "_custom_ops.py"
    file.write_text(original("vllm", "0.33.0", FILE), encoding="utf-8")
    return choices(python, "/upstream.py", files={file: "/upstream.py"})


def test_upstream_leaves_gb10_to_triton(before: Choices) -> None:
    assert set(before) == {80, 89, 90, 100, 103, 110, 120, 121, 130}
    for scheme in OURS:
        assert {capability for capability, chosen in before.items() if chosen[scheme] == VLLM} == {90, 100, 103}
        assert before[121][scheme] == "TRITON"


def test_gb10_gets_the_kernel_where_a_layer_allows_it(before: Choices, after: Choices) -> None:
    """And nothing else moves: not another scheme, not another device, nor a 12.0 board, which cannot run 12.1f."""
    assert after == before | {121: before[121] | dict.fromkeys(OURS, VLLM)}
