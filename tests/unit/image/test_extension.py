"""Kernels of our own: what moves their wheel's key, what their compile stage refuses, what it packs."""

import argparse
import json
import platform
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from packaging.utils import parse_wheel_filename

from gb10.core.files import Checkout
from gb10.errors import UsageError
from gb10.image.build.cache_status import selected
from gb10.image.lock.lockfile import load_recipe
from gb10.image.plan.catalog import ROOT
from gb10.image.plan.options import Options
from gb10.image.plan.render import wheel_dockerfile
from gb10.image.plan.values import Plan, Toolkit
from gb10.image.recipe.arch import parse_arch
from gb10.image.recipe.image_recipe import Recipe, WheelBuild
from gb10.image.recipe.locked import Lock
from gb10.inside.compile import extension, pack_extension
from tests.recipes import SHIPPED, moved, plan_of
from tests.unit.image.test_patched import from_git

RECIPE = ROOT / "recipes/images/vllm.yaml"
JIT_CACHE, OURS = "flashinfer-jit-cache", "gb10-kernels"
BUILD = WheelBuild(
    method="extension",
    source="flashinfer",
    kernels="moe",
    headers=("nvidia-cuda-cccl", "nvidia-cuda-crt", "nvidia-cuda-runtime", "torch"),
)
MOVED = {OURS, f"layer-{OURS}", "image", "proof"}
KERNELS: dict[str, Any] = {"name": "moe", "version": "0.1.0", "cutlass": ">=4.5", "module": [{"name": "gb10_moe"}]}


@pytest.fixture(scope="module")
def recipe() -> Recipe:
    """The real one, with both wheels whatever it names."""
    real = load_recipe(RECIPE)
    return real.model_copy(update={"wheels": {JIT_CACHE: real.wheels[JIT_CACHE], OURS: BUILD}})


def make(recipe: Recipe, lock: Lock, toolkit: Toolkit | None = None, arch: str = "12.1f") -> Plan:
    target = parse_arch(arch)
    options = Options(arch=target, platform=target.platform, build="amd64")
    return plan_of(recipe, lock, toolkit or SHIPPED.toolkit, options)


@pytest.mark.parametrize(
    "file",
    [
        "units/moe/a-new-one.cu",
        "units/moe/ops.cpp",
        "inside/compile/extension.py",
        "inside/compile/gb10_kernels.py",
        "inside/compile/pack_extension.py",
    ],
)
def test_a_file_of_our_kernels_moves_their_wheel_alone(recipe: Recipe, lock: Lock, file: str) -> None:
    toolkit = SHIPPED.toolkit
    changed = replace(toolkit, digests={**toolkit.digests, file: "0" * 64})
    assert moved(make(recipe, lock), make(recipe, lock, changed)) == MOVED


def test_a_file_of_flashinfers_kernels_does_not_move_ours(recipe: Recipe, lock: Lock) -> None:
    toolkit = SHIPPED.toolkit
    for file in ("inside/compile/jit_cache.py", "units/another-set/a.cu"):
        changed = replace(toolkit, digests={**toolkit.digests, file: "0" * 64})
        assert OURS not in moved(make(recipe, lock), make(recipe, lock, changed))


def test_our_wheel_beside_it_leaves_flashinfers_key_as_it_is(recipe: Recipe, lock: Lock) -> None:
    alone = recipe.model_copy(update={"wheels": {JIT_CACHE: recipe.wheels[JIT_CACHE]}})
    assert moved(make(alone, lock), make(recipe, lock)) == MOVED


def test_the_source_that_brings_cutlass_moves_both(recipe: Recipe, lock: Lock) -> None:
    sdist = lock.sdists["flashinfer-python"].model_copy(update={"sha256": "0" * 64})
    after = lock.model_copy(update={"sdists": {"flashinfer-python": sdist}})
    assert moved(make(recipe, lock), make(recipe, after)) == {*MOVED, JIT_CACHE, f"layer-{JIT_CACHE}"}


def test_a_cutlass_from_git_is_a_source_of_its_own(recipe: Recipe, lock: Lock) -> None:
    before, after = (make(*from_git(recipe, lock, version)) for version in ("4.6.0", "4.7.0"))
    assert moved(before, after) == MOVED
    step = after.step(OURS)
    paths = ("include", "tools/util/include")
    assert step.files[0].checkout == Checkout("https://git.invalid/cutlass", "v4.7.0", paths, "2" * 40)
    text = wheel_dockerfile(after, step, SHIPPED.templates, jobs="1")
    assert "--cutlass /source \\\n" in text


def test_the_torch_that_we_link_against_moves_ours(recipe: Recipe, lock: Lock) -> None:
    files = tuple(
        wheel.model_copy(update={"sha256": "0" * 64}) if wheel.name == "torch" else wheel
        for wheel in lock.wheels.image["arm64"]
    )
    after = lock.model_copy(update={"wheels": lock.wheels.model_copy(update={"image": {"arm64": files}})})
    assert moved(make(recipe, lock), make(recipe, after)) == {*MOVED, "layer-torch"}


@pytest.mark.parametrize(
    ("arch", "about"), [("12.1f", "extension moe for 12.1f"), ("12.1", "extension moe for 12.1, compiled as 12.1a")]
)
def test_another_arch_moves_ours(recipe: Recipe, lock: Lock, arch: str, about: str) -> None:
    plan = make(recipe, lock, arch=arch)
    assert plan.step(OURS).about == about
    assert OURS in moved(make(recipe, lock, arch="12.1a"), plan)


def test_a_set_without_units_or_of_another_name(recipe: Recipe, lock: Lock) -> None:
    toolkit = SHIPPED.toolkit
    bare = {file: value for file, value in toolkit.digests.items() if not file.startswith("units/moe/")}
    with pytest.raises(UsageError, match="the kernel set moe has no units"):
        make(recipe, lock, replace(toolkit, digests=bare))
    other = recipe.model_copy(update={"wheels": {OURS: BUILD.model_copy(update={"kernels": "mo"})}})
    with pytest.raises(UsageError, match="the source gb10 has no kernel set 'mo'") as caught:
        make(other, lock)
    assert caught.value.hint == "did you mean moe? known: moe"


def test_each_flag_rebuilds_its_own_wheel(recipe: Recipe, lock: Lock) -> None:
    plan = make(recipe, lock)
    assert selected(plan, ("flashinfer",)) == {JIT_CACHE}
    assert selected(plan, ("kernels",)) == selected(plan, (OURS,)) == {OURS}
    alone = make(recipe.model_copy(update={"wheels": {JIT_CACHE: recipe.wheels[JIT_CACHE]}}), lock)
    with pytest.raises(UsageError, match="--rebuild kernels: the recipe builds no wheel from kernels") as caught:
        selected(alone, ("kernels",))
    assert caught.value.hint == f"valid: flashinfer, {JIT_CACHE}"


@pytest.mark.parametrize(
    ("condition", "version", "answer"),
    [
        (">=4.5", "4.5.0", True),
        (">=4.5", "4.4.2", False),
        (">=4.5", "4.10.0", True),
        ("<4.6", "4.6.0", False),
        ("==4.5", "4.5.0", True),
        (" <= 4.5", "4.5.1", False),
    ],
)
def test_conditions_on_a_version(condition: str, version: str, answer: bool) -> None:
    assert extension.holds(version, condition) is answer


def test_a_stale_cutlass_is_refused_with_both_versions() -> None:
    extension.check_cutlass({**KERNELS, "cutlass": ">=4.5,<4.6"}, "4.5.2", ROOT)
    with pytest.raises(SystemExit, match=r"the kernel set moe needs CUTLASS >=4\.5, the source brings 4\.4\.2"):
        extension.check_cutlass(KERNELS, "4.4.2", ROOT)
    with pytest.raises(SystemExit, match=r"'~=4\.5' is no condition"):
        extension.check_cutlass({**KERNELS, "cutlass": "~=4.5"}, "4.5.0", ROOT)


def test_the_version_that_a_header_defines(tmp_path: Path) -> None:
    header = tmp_path / "version.h"
    header.write_text("#define C_MAJOR 4\n#define C_MINOR 5\n#define C_PATCH 0\n", encoding="utf-8")
    assert extension.defined_version(header, "C") == "4.5.0"
    for path, prefix in ((header, "D"), (tmp_path / "none.h", "C")):
        with pytest.raises(SystemExit, match="is not there, or defines no"):
            extension.defined_version(path, prefix)


def test_a_plain_arch_and_a_second_module_are_refused() -> None:
    extension.check_arch("12.1f")
    with pytest.raises(SystemExit, match=r"not compiled for 12\.1: name 12\.1f or 12\.1a"):
        extension.check_arch("12.1")
    with pytest.raises(SystemExit, match="moe names 2 modules"):
        extension.only_module({**KERNELS, "module": [{}, {}]})


def test_gpu_code_is_compiled_first_and_headers_are_no_units(tmp_path: Path) -> None:
    for name in ("a.cpp", "b.cu", "c.cuh", "d.h"):
        (tmp_path / name).touch()
    assert [unit.name for unit in extension.find_units(tmp_path)] == ["b.cu", "a.cpp"]
    (tmp_path / "none").mkdir()
    with pytest.raises(SystemExit, match=r"no \.cu and no \.cpp"):
        extension.find_units(tmp_path / "none")


def test_one_object_a_unit_and_no_undefined_symbol(tmp_path: Path) -> None:
    options = argparse.Namespace(
        cutlass="/c", torch=Path("/t"), cuda_home=Path("/cuda"), cxx="g++", gencode="arch=compute_121f,code=sm_121f"
    )
    text = extension.ninja_file([Path("/u/b.cu"), Path("/u/a.cpp")], "m", tmp_path / "m.so", options)
    assert "build m/b.cu.o: cu /u/b.cu\nbuild m/a.cpp.o: cpp /u/a.cpp\n" in text
    assert f"build {tmp_path}/m.so: link m/b.cu.o m/a.cpp.o\n" in text
    assert text.count("-gencode=arch=compute_121f,code=sm_121f ") == 1
    assert "-Wl,-z,defs" in text


def pack(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, manifest: Mapping[str, object]) -> Path:
    library = tmp_path / "built/gb10_moe/gb10_moe.so"
    library.parent.mkdir(parents=True, exist_ok=True)
    library.write_bytes(Path(sys.executable).resolve().read_bytes())
    (tmp_path / "built/manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    argv = [
        "pack_extension.py",
        "--built",
        tmp_path / "built",
        "--key",
        "0123abcd",
        "--machine",
        platform.machine(),
        "--epoch",
        315_532_800,
        "--out",
        tmp_path / "out",
    ]
    monkeypatch.setattr(sys, "argv", [str(word) for word in argv])
    pack_extension.main()
    return next((tmp_path / "out").glob("*.whl"))


def test_the_wheel_is_what_installers_parse_and_holds_the_library(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wheel = pack(monkeypatch, tmp_path, {"version": "0.1.0", "torch": "2.14.0"})
    name, version, _, tags = parse_wheel_filename(wheel.name)
    assert (name, str(version)) == (OURS, "0.1.0+gb10.0123abcd")
    assert [tag.platform.endswith(platform.machine()) for tag in tags] == [True]
    first = wheel.read_bytes()
    assert pack(monkeypatch, tmp_path, {"version": "0.1.0", "torch": "2.14.0"}).read_bytes() == first
    with zipfile.ZipFile(wheel) as archive:
        info = "gb10_kernels-0.1.0+gb10.0123abcd.dist-info"
        assert archive.namelist() == [
            *(f"gb10_kernels/{name}" for name in ("__init__.py", "manifest.json", "modules/gb10_moe/gb10_moe.so")),
            *(f"{info}/{name}" for name in ("METADATA", "WHEEL", "RECORD")),
        ]
        assert "Requires-Dist: torch>=2.14.0\n" in archive.read(f"{info}/METADATA").decode()
