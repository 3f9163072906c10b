"""The vLLM series on real releases: the class that chooses experts, and the lines of CMake that take a CUTLASS tree.

The class is cut out and run on stand-ins; torch is only named in its annotations. A real cmake runs CMake's lines.
"""

import __future__

import ast
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from gb10.core.proc import CommandFailedError, capture
from tests.integration.patches.releases import original, patched

pytestmark = pytest.mark.integration

MOE, STALE = "0001-cutlass-moe-reachable-on-sm12x", "0002-stale-cutlass-source"
SWITCH = "GB10_CUTLASS_MOE_SMALL_BATCH"
FOLDER = "vllm/model_executor/layers/fused_moe"
CLASS: Final = {
    "0.17.1": f"{FOLDER}/triton_cutlass_moe.py",
    "0.20.2": f"{FOLDER}/triton_cutlass_moe.py",
    "0.22.1": f"{FOLDER}/experts/triton_cutlass_moe.py",
    "0.33.0": f"{FOLDER}/experts/triton_cutlass_moe.py",
}
PINS: Final = {"0.17.1": "4.2.1", "0.23.0": "4.4.2", "0.24.0": "4.4.2", "0.33.0": "4.7.1"}


class Fallback:
    """Stands for FallbackExperts: it keeps both."""

    def __init__(self, experts: object, fallback_experts: object) -> None:
        self.experts, self.fallback_experts = experts, fallback_experts


class Experts(str):
    """One kind of experts, by name."""

    __slots__ = ()

    def workspace_shapes(self, *_: object) -> str:
        """Which kind was asked for its workspace."""
        return str(self)


def chosen(text: str, capability: int) -> dict[int, str]:
    """By the release's own class: which experts serve a batch, for sizes around the limit."""
    names: dict[str, Any] = {
        "FallbackExperts": Fallback,
        "CutlassExpertsFp8": lambda *_: Experts("cutlass"),
        "TritonExperts": lambda *_: Experts("triton"),
        "current_platform": SimpleNamespace(
            has_device_capability=lambda wanted: capability >= wanted,
            is_device_capability_family=lambda wanted: capability // 10 == wanted // 10,
        ),
    }
    exec(class_of(text), names)  # noqa: S102 - one class of the release, cut out
    experts = names["TritonOrCutlassExperts"](None, None)
    return {size: choice(experts, size) for size in (1, 8, 9)}


def class_of(text: str) -> Any:  # noqa: ANN401 - a code object has no public name
    """The class with what it imports of the standard library; annotations stay text."""
    wanted = [
        node
        for node in ast.parse(text).body
        if (isinstance(node, ast.Import) and node.names[0].name == "os")
        or getattr(node, "name", "") == "TritonOrCutlassExperts"
    ]
    flags = __future__.annotations.compiler_flag
    return compile(ast.Module(wanted, []), "triton_cutlass_moe", "exec", flags, dont_inherit=True)


def choice(experts: Any, size: int) -> str:  # noqa: ANN401 - a class of the release
    """Both answers of the class, which must agree: the workspace is the chosen experts' own."""
    selected = str(experts._select_experts_impl(SimpleNamespace(shape=(size, 64)), None, None))
    assert experts.workspace_shapes(size, *[0] * 7) == selected
    return selected


TRITON_UP_TO_8 = {1: "triton", 8: "triton", 9: "cutlass"}
CUTLASS = dict.fromkeys((1, 8, 9), "cutlass")


@pytest.mark.parametrize("version", CLASS)
def test_small_batches_never_reach_cutlass_before(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "1")
    assert chosen(original("vllm", version, CLASS[version]), 121) == TRITON_UP_TO_8


@pytest.mark.parametrize("version", CLASS)
def test_with_the_switch_they_do_on_12x_alone(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "1")
    text = patched("vllm", version, MOE, CLASS[version])
    assert {capability: chosen(text, capability) for capability in (121, 120)} == {121: CUTLASS, 120: CUTLASS}
    assert {capability: chosen(text, capability) for capability in (100, 103)} == {
        100: TRITON_UP_TO_8,
        103: TRITON_UP_TO_8,
    }


@pytest.mark.parametrize("version", CLASS)
@pytest.mark.parametrize("switch", [None, "0"])
@pytest.mark.parametrize("capability", [90, 100, 103, 110, 120, 121])
def test_without_it_nothing_changes(
    version: str, switch: str | None, capability: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(SWITCH, raising=False)
    if switch is not None:
        monkeypatch.setenv(SWITCH, switch)
    before, after = original("vllm", version, CLASS[version]), patched("vllm", version, MOE, CLASS[version])
    assert chosen(after, capability) == chosen(before, capability)


def test_a_switch_that_is_no_number_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "yes")
    with pytest.raises(ValueError, match="yes"):
        chosen(patched("vllm", "0.33.0", MOE, CLASS["0.33.0"]), 121)


def tree(root: Path, version: str) -> Path:
    """A CUTLASS tree, as far as its version goes."""
    header = root / version / "include/cutlass/version.h"
    header.parent.mkdir(parents=True)
    parts = zip(("MAJOR", "MINOR", "PATCH"), version.split("."), strict=True)
    header.write_text("#pragma once\n" + "".join(f"#define CUTLASS_{name} {part}\n" for name, part in parts))
    return root / version


def configure(cmake: Path, work: Path, text: str, source: Path | None) -> str:
    """What the release's lines declare of CUTLASS; raises CommandFailedError when they stop."""
    start, end = text.index("set(CUTLASS_REVISION"), text.index("FetchContent_MakeAvailable(cutlass)")
    stand_in = 'function(FetchContent_Declare)\n  message(NOTICE "declared ${ARGV}")\nendfunction()\n'
    script = work / "lines.cmake"
    script.write_text(f"cmake_minimum_required(VERSION 3.26)\n{stand_in}{text[start:end]}")
    env = {"VLLM_CUTLASS_SRC_DIR": str(source)} if source else {}
    return capture(["/bin/sh", "-c", 'exec "$0" -P "$1" 2>&1', str(cmake), str(script)], env=env)


@pytest.mark.parametrize("version", PINS)
def test_an_older_tree_is_taken_before_and_stops_after(version: str, cmake: Path, tmp_path: Path) -> None:
    older = tree(tmp_path, "4.2.0")
    before, after = original("vllm", version, "CMakeLists.txt"), patched("vllm", version, STALE, "CMakeLists.txt")
    assert f"declared cutlass;SOURCE_DIR;{older}" in configure(cmake, tmp_path, before, older)
    with pytest.raises(CommandFailedError) as caught:
        configure(cmake, tmp_path, after, older)
    told = " ".join(caught.value.tail.split())
    assert f"holds CUTLASS 4.2.0, this release needs {PINS[version]} or newer: {older}." in told
    assert "declared" not in told


@pytest.mark.parametrize("version", PINS)
@pytest.mark.parametrize("newer", [False, True])
def test_a_tree_as_new_as_the_pin_is_taken_as_before(version: str, newer: bool, cmake: Path, tmp_path: Path) -> None:
    source = tree(tmp_path, "4.10.0" if newer else PINS[version])  # 4.10 is above 4.7, and below it as text
    before, after = original("vllm", version, "CMakeLists.txt"), patched("vllm", version, STALE, "CMakeLists.txt")
    assert configure(cmake, tmp_path, after, source) == configure(cmake, tmp_path, before, source)


@pytest.mark.parametrize("version", PINS)
def test_without_a_tree_the_pin_is_declared_as_before(version: str, cmake: Path, tmp_path: Path) -> None:
    declared = configure(cmake, tmp_path, patched("vllm", version, STALE, "CMakeLists.txt"), None)
    assert f"GIT_TAG;v{PINS[version]};" in declared


def test_what_is_no_cutlass_tree_stops(cmake: Path, tmp_path: Path) -> None:
    text = patched("vllm", "0.33.0", STALE, "CMakeLists.txt")
    with pytest.raises(CommandFailedError, match="exited with 1") as missing:
        configure(cmake, tmp_path, text, tmp_path)
    assert "is no CUTLASS tree" in missing.value.tail
    (tree(tmp_path, "4.7.1") / "include/cutlass/version.h").write_text("#define CUTLASS_MAJOR 4\n")
    with pytest.raises(CommandFailedError) as damaged:
        configure(cmake, tmp_path, text, tmp_path / "4.7.1")
    assert "does not define CUTLASS_MINOR" in " ".join(damaged.value.tail.split())
