"""CMake targets of vLLM's own project for real: configured across over the locked torch, compiled, grafted."""

import os
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from gb10.engine.find import find
from gb10.errors import UsageError
from gb10.pipeline.grafts import late_grafts
from gb10.pipeline.planning import Request, make_plan
from gb10.pipeline.prepare import store_paths
from gb10.pipeline.wheels import Wheel, build_wheel, installable
from gb10.pipeline.workshop import Workshop, open_workshop
from gb10.plan import Plan
from gb10.verify.read import scan_path

pytestmark = pytest.mark.integration

SMALL = ("spinloop", "fs_io_C")  # no GPU code: the whole way in seconds of compiling


@pytest.fixture(scope="module")
def shop() -> Workshop:
    return open_workshop(os.environ, verbosity=0)


def plan_of(shop: Workshop, targets: Sequence[str]) -> Plan:
    return make_plan(shop, Request(engine="vllm", arch="12.1f", targets=tuple(targets)))


def compiled(shop: Workshop, plan: Plan) -> Wheel:
    return build_wheel(shop, lambda: find(shop.env, shop.store), plan, plan.step("vllm"), rebuild=False)


@pytest.fixture(scope="module")
def grafted(shop: Workshop) -> tuple[Path, Path]:
    """Upstream's wheel, and the one with our targets laid over it."""
    plan = plan_of(shop, SMALL)
    wheel = compiled(shop, plan)
    assert installable(plan, [wheel]) == ()
    made = next(wheel for wheel in late_grafts(shop, plan) if wheel.name == "graft-vllm")
    (upstream,) = store_paths(shop, plan.step("graft-vllm").files)
    return upstream, made.path


def test_only_the_targets_and_what_is_patched_differ_from_upstreams_wheel(grafted: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(grafted[0]) as upstream, zipfile.ZipFile(grafted[1]) as ours:
        before = {entry.filename: entry.CRC for entry in upstream.infolist() if ".dist-info/" not in entry.filename}
        after = {entry.filename: entry.CRC for entry in ours.infolist() if ".dist-info/" not in entry.filename}
    changed = {name for name in after if before.get(name) != after[name]}
    assert set(before) == set(after)
    assert {name for name in changed if name.endswith(".so")} == {f"vllm/{name}.abi3.so" for name in SMALL}
    assert {Path(name).suffix for name in changed} == {".so", ".py"}


def test_the_libraries_are_for_the_images_machine(grafted: tuple[Path, Path], tmp_path: Path) -> None:
    with zipfile.ZipFile(grafted[1]) as ours:
        ours.extractall(tmp_path, [f"vllm/{name}.abi3.so" for name in SMALL])
    found = scan_path(tmp_path).binaries
    assert [(binary.machine, binary.error) for binary in found] == [("aarch64", "")] * len(SMALL)
    assert all("libtorch.so" in binary.needed or "libc.so.6" in binary.needed for binary in found)


def test_the_same_again_is_a_hit(shop: Workshop, grafted: tuple[Path, Path]) -> None:
    assert grafted[1].exists()
    assert compiled(shop, plan_of(shop, SMALL)).hit


def test_without_targets_nothing_of_the_project_is_read(shop: Workshop) -> None:
    plan = plan_of(shop, [])
    assert "vllm" not in {step.name for step in plan.steps}
    assert not [use for use in plan.options.patches if use.compiled and use.source == "vllm"]
    compiled = [use.name for use in plan_of(shop, SMALL).options.patches if use.compiled and use.source == "vllm"]
    assert compiled == ["0002-stale-cutlass-source@0.24.0.patch", "0004-sm120-fp8-moe-in-tree"]


def test_a_name_that_is_no_target_is_refused_before_anything_runs(shop: Workshop) -> None:
    with pytest.raises(UsageError, match="--targets a b"):
        plan_of(shop, ["a b"])
