"""vllm/0003 on the real release: which capability may use the grouped FP8 GEMM, whose operator runs, what is said."""

import functools
import json
import os
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from gb10.image.plan.catalog import ROOT
from tests.integration.patches.cut import both, find, run

pytestmark = [pytest.mark.integration, pytest.mark.slow]

PATCH, PATH = "0003-fp8-moe-by-gb10-kernels", "vllm/_custom_ops.py"
FUNCTIONS = ("_gb10_grouped_mm", "cutlass_group_gemm_supported", "cutlass_moe_mm")
CAPABILITIES = (80, 89, 90, 100, 103, 110, 120, 121, 130)
UPSTREAM = {90, 100, 103}
"""What the release's own library says yes to: it holds kernels for these."""


class Device:
    """The release's functions on a device of one capability; ``compiled``: with kernels for 12.x in its library."""

    def __init__(self, text: str, capability: int, *, compiled: bool = False) -> None:
        self.served = UPSTREAM | ({120, 121} if compiled else set())
        self.capability, self.called, self.warnings = capability, list[str](), list[str]()
        self.names: dict[str, Any] = {
            "cache": functools.cache,
            "os": os,
            "logger": SimpleNamespace(warning=lambda text, *values: self.warnings.append(text % values)),
            "current_platform": SimpleNamespace(
                is_device_capability_family=lambda wanted: capability // 10 == wanted // 10,
                get_device_capability=lambda: divmod(capability, 10),
            ),
            "torch": SimpleNamespace(ops=SimpleNamespace(_C=self.operators("_C"), gb10=self.operators("gb10"))),
        }
        run([find(text, name) for name in FUNCTIONS], self.names)

    def operators(self, namespace: str) -> SimpleNamespace:
        return SimpleNamespace(
            cutlass_group_gemm_supported=lambda capability: capability in self.served,
            cutlass_moe_mm=lambda *_: self.called.append(namespace),
        )

    def supported(self) -> bool:
        return bool(self.names["cutlass_group_gemm_supported"](self.capability))

    def multiply(self) -> str:
        self.names["cutlass_moe_mm"](*range(12))
        return self.called[-1]


@pytest.fixture(params=["0.31.0", "0.32.0", "0.33.0"])
def texts(request: pytest.FixtureRequest) -> tuple[str, str]:
    """The file before and after."""
    return both("vllm", request.param, PATCH, PATH)


def install(monkeypatch: pytest.MonkeyPatch, folder: Path, arch: str) -> None:
    """Our package without its operators, which need torch: what it says of devices."""
    (folder / "manifest.json").write_text(json.dumps({"arch": arch}), encoding="utf-8")
    text = (ROOT / "gb10/inside/compile/gb10_kernels.py").read_text(encoding="utf-8")
    module = ModuleType("gb10_kernels")
    module.__dict__.update(run([find(text, "check_device")], {"json": json, "FOLDER": folder}))
    monkeypatch.setitem(sys.modules, "gb10_kernels", module)
    monkeypatch.delenv("GB10_CUTLASS_MOE", raising=False)


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(monkeypatch, tmp_path, "12.0f")


def test_before_no_12x_may_and_nothing_is_said(texts: tuple[str, str], package: None) -> None:
    devices = [Device(texts[0], capability) for capability in CAPABILITIES]
    assert {device.capability for device in devices if device.supported()} == UPSTREAM
    assert not any(device.warnings for device in devices)


def test_with_the_package_12x_may_and_its_operator_serves_them(texts: tuple[str, str], package: None) -> None:
    devices = [Device(texts[1], capability) for capability in CAPABILITIES]
    assert {device.capability for device in devices if device.supported()} == UPSTREAM | {120, 121}
    assert {device.capability for device in devices if device.multiply() == "gb10"} == {120, 121}
    assert not any(device.warnings for device in devices)


@pytest.mark.parametrize(
    ("arch", "served"), [("12.1f", {121}), ("12.0f", {120, 121}), ("12.1a", {121}), ("12.0a", {120})]
)
def test_a_device_that_cannot_run_its_code_is_left_to_upstream(
    texts: tuple[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arch: str, served: set[int]
) -> None:
    install(monkeypatch, tmp_path, arch)
    devices = [Device(texts[1], capability) for capability in (120, 121)]
    assert {device.capability for device in devices if device.supported()} == served
    assert all(f"gb10-kernels are for {arch}" in said for device in devices for said in device.warnings)
    assert {device.capability for device in devices if device.warnings} == {120, 121} - served


def test_without_the_package_upstreams_choice_stands_and_why_is_said_once(
    texts: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "gb10_kernels", None)
    device = Device(texts[1], 121)
    assert not device.supported()
    assert not device.supported()
    (said,) = device.warnings
    assert "gb10_kernels" in said
    assert device.multiply() == "_C"


def test_a_switch_leaves_the_choice_to_upstream(
    texts: tuple[str, str], package: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GB10_CUTLASS_MOE", "0")
    device = Device(texts[1], 121)
    assert not device.supported()
    assert device.warnings == ["GB10_CUTLASS_MOE=0: FP8 MoE layers do not use gb10's kernels"]
    assert not Device(texts[1], 121, compiled=True).supported()


def test_what_was_compiled_with_the_engine_serves_where_the_package_does_not(
    texts: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GB10_CUTLASS_MOE", raising=False)
    monkeypatch.setitem(sys.modules, "gb10_kernels", None)
    devices = [Device(texts[1], capability, compiled=True) for capability in CAPABILITIES]
    assert {device.capability for device in devices if device.supported()} == UPSTREAM | {120, 121}
    assert {device.multiply() for device in devices} == {"_C"}
    assert not any(device.warnings for device in devices)


def test_of_both_the_package_serves(texts: tuple[str, str], package: None) -> None:
    device = Device(texts[1], 121, compiled=True)
    assert device.supported()
    assert device.multiply() == "gb10"
