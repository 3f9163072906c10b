"""What the stage that compiles an engine's CMake targets checks and reads before and after CMake."""

import argparse
import json
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from gb10.core.reporter import Reporter
from gb10.core.store import Store, seal
from gb10.image.build.wheels import build_wheels
from gb10.image.context import Context
from gb10.image.lock.lockfile import load_lock, load_recipe, lock_path
from gb10.image.proof.wheel_files import read_manifest
from gb10.image.request.planning import with_targets
from gb10.inside.compile import cmake_manifest, cmake_targets
from gb10.inside.compile.cmake_nested import Nested
from tests.recipes import SHIPPED
from tests.unit.image.test_targets_plan import RECIPE, make

VERSION = "#define CUTLASS_MAJOR {}\n#define CUTLASS_MINOR {}\n#define CUTLASS_PATCH {}\n"


def options(tmp_path: Path, *, names: str, brings: str, accepted: str = "") -> argparse.Namespace:
    """A project that names one CUTLASS, and another that is there."""
    source, cutlass = tmp_path / "source", tmp_path / "cutlass"
    (cutlass / "include/cutlass").mkdir(parents=True)
    source.mkdir()
    (source / "CMakeLists.txt").write_text(f'    set(CUTLASS_REVISION "{names}")\n', encoding="utf-8")
    header = cutlass / "include/cutlass/version.h"
    header.write_text(VERSION.format(*brings.removeprefix("v").split(".")), encoding="utf-8")
    return argparse.Namespace(source=source, cutlass=cutlass, accepted=accepted)


@pytest.mark.parametrize(("brings", "accepted"), [("v4.7.1", ""), ("v4.5.0", "v4.7.1")])
def test_the_engines_own_cutlass_or_one_that_the_recipe_means(tmp_path: Path, brings: str, accepted: str) -> None:
    cmake_targets.check_cutlass(options(tmp_path, names="v4.7.1", brings=brings, accepted=accepted))


@pytest.mark.parametrize("accepted", ["", "v4.6.0"])
def test_a_stale_cutlass_stops_before_anything_is_compiled(tmp_path: Path, accepted: str) -> None:
    with pytest.raises(SystemExit, match=r"names CUTLASS v4\.7\.1, the source brings v4\.5\.0"):
        cmake_targets.check_cutlass(options(tmp_path, names="v4.7.1", brings="v4.5.0", accepted=accepted))


def test_torchs_flags_are_read_and_not_run(tmp_path: Path) -> None:
    (tmp_path / "utils").mkdir()
    text = "import no_such_module\nCOMMON_NVCC_FLAGS = [\n    '-DA',\n    '--b',\n]\nraise SystemExit\n"
    (tmp_path / "utils/cpp_extension.py").write_text(text, encoding="utf-8")
    assert cmake_targets.nvcc_flags(tmp_path) == ["-DA", "--b"]


def test_torch_without_the_flags_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "utils").mkdir()
    (tmp_path / "utils/cpp_extension.py").write_text("OTHER = []\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="COMMON_NVCC_FLAGS"):
        cmake_targets.nvcc_flags(tmp_path)


def test_nvcc_lies_where_the_headers_of_the_target_are(tmp_path: Path) -> None:
    host, target = tmp_path / "host", tmp_path / "target"
    (host / "bin").mkdir(parents=True)
    (host / "bin/nvcc").write_text("nvcc", encoding="ascii")
    (target / "nvvm").mkdir(parents=True)
    (target / "bin").symlink_to(host / "bin")
    torch = tmp_path / "torch"
    (torch / "utils").mkdir(parents=True)
    (torch / "utils/cpp_extension.py").write_text("COMMON_NVCC_FLAGS = ['-O3']\n", encoding="ascii")
    given = argparse.Namespace(cuda_home=target, machine="aarch64", torch=torch, work=tmp_path / "work")
    cmake_targets.lay_out_target(given)
    assert (target / "bin/nvcc").resolve() == target / "bin/nvcc"
    assert (host / "bin/nvcc").is_file()
    for name in ("aarch64-linux", "sbsa-linux"):
        assert (target / "targets" / name / "lib").readlink() == target / "lib64"


def asked_for(tmp_path: Path, targets: str) -> argparse.Namespace:
    return argparse.Namespace(source=tmp_path, work=tmp_path, targets=targets, nested=[], arch="12.1f", wheel="vllm")


@pytest.fixture
def nested() -> list[Nested]:
    """A project that is not handed in."""
    return [
        Nested(
            name="flashkda",
            url="https://git.invalid/a",
            pin="1a" * 20,
            submodules=(),
            variable="A_SRC_DIR",
            targets=("_flashkda_C",),
        )
    ]


def test_all_is_every_target_that_cmake_compiles_and_what_is_left_out_is_told(
    tmp_path: Path, nested: list[Nested], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cmake_targets, "known_targets", lambda _: {"spinloop", "_C"})
    why = "of flashkda, not handed in: upstream's wheel has what there is"
    assert cmake_targets.choose_targets(asked_for(tmp_path, "all"), nested) == (
        ["_C", "spinloop"],
        {"_flashkda_C": why},
    )
    assert capsys.readouterr().out == f"left out: _flashkda_C: {why}\n"
    assert cmake_targets.choose_targets(asked_for(tmp_path, "_C"), nested) == (["_C"], {})
    assert capsys.readouterr().out == ""


def test_what_is_left_out_is_in_the_wheel_and_told_on_a_hit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cmake_manifest, "compile_commands", lambda *_: ["nvcc -gencode code=sm_120 -c a.cu"])
    built = tmp_path / "built"
    (built / "vllm").mkdir(parents=True)
    (built / "vllm/_C.abi3.so").write_bytes(b"library")
    asked = argparse.Namespace(work=tmp_path, out=built, arch="12.1f")
    cmake_manifest.write_manifest(asked, ["_C"], {"_flashkda_C": "of flashkda, not handed in"})
    ctx = Context(env={}, store=Store(tmp_path / "store"), reporter=Reporter({}), catalog=SHIPPED)
    plan = make(with_targets(load_recipe(RECIPE), ("all",)), load_lock(lock_path(RECIPE)))
    step = plan.step("vllm")
    wheel = ctx.store.entry("wheels", step.key) / "vllm_targets-1-py3-none-any.whl"
    wheel.parent.mkdir(parents=True)
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(built / "manifest.json", "vllm_targets/manifest.json")
    seal(wheel)
    assert read_manifest(wheel).modules == {"vllm/_C.abi3.so": ("sm_120",)}
    alone = replace(plan, steps=(step,))
    assert build_wheels(ctx, alone, lambda: pytest.fail("an engine was asked for"), rebuild=())[0].hit
    assert capfd.readouterr().err == "left out: _flashkda_C: of flashkda, not handed in\n"


def test_a_target_that_the_project_has_not_is_told_with_those_it_has(
    tmp_path: Path, nested: list[Nested], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cmake_targets, "known_targets", lambda _: {"spinloop", "_C"})
    known = "known: _C, spinloop. Left out, because each is a git repository of its own: flashkda"
    with pytest.raises(SystemExit, match=f"the project has no target _no_C; {known}$"):
        cmake_targets.choose_targets(asked_for(tmp_path, "_C,_no_C"), nested)
    with pytest.raises(SystemExit, match=rf"{known}\n_flashkda_C is a target of flashkda, a git repository"):
        cmake_targets.choose_targets(asked_for(tmp_path, "_flashkda_C"), nested)


def test_a_project_that_names_no_cutlass_is_refused(tmp_path: Path) -> None:
    asked = options(tmp_path, names="v4.7.1", brings="v4.7.1")
    (asked.source / "CMakeLists.txt").write_text("set(CUTLASS_REVISION v4.7.1)\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="names no CUTLASS_REVISION"):
        cmake_targets.check_cutlass(asked)


@pytest.mark.parametrize(
    ("arch", "codes", "runs"),
    [
        ("12.1f", ["sm_120f", "sm_120"], True),
        ("12.1a", ["sm_120"], True),
        ("12.0f", ["sm_121f"], False),
        ("12.1f", ["sm_80"], False),
        ("12.1f", [], True),
    ],
)
def test_gpu_code_that_the_arch_cannot_run_stops_before_it_is_compiled(
    monkeypatch: pytest.MonkeyPatch, arch: str, codes: list[str], runs: bool
) -> None:
    lines = [f"nvcc -gencode arch=compute_1,code={code} -c a.cu" for code in codes]
    monkeypatch.setattr(cmake_manifest, "compile_commands", lambda *_: lines)
    asked = argparse.Namespace(work=Path("/w"), arch=arch)
    if runs:
        assert cmake_manifest.codes_of(asked, "_C") == sorted(codes)
    else:
        with pytest.raises(SystemExit, match=f"none of it runs on {arch}"):
            cmake_manifest.codes_of(asked, "_C")


@pytest.mark.parametrize(
    ("made", "target"),
    [
        ("CMakeFiles/_C.dir/csrc/a.cu.o", "_C"),
        ("sub/CMakeFiles/_moe_C.dir/x.cpp.o", "_moe_C"),
        ("CMakeFiles/CMakeScratch/TryCompile-x/a.o", ""),
    ],
)
def test_an_object_lies_in_the_folder_of_its_target(made: str, target: str) -> None:
    assert cmake_manifest.target_of(made) == target


def test_what_the_compiler_read_of_the_project_is_kept_by_target_and_unit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, work, out = (tmp_path / name for name in ("source", "work", "out"))
    for folder in (source, work, out, tmp_path / "bin"):
        folder.mkdir()
    listed = f"""\
CMakeFiles/one.dir/csrc/a.cu.o: #deps 3, deps mtime 1 (VALID)
    ../source/csrc/a.cu
    {source}/csrc/a.h
    /usr/include/stdio.h

sub/CMakeFiles/one.dir/b.cpp.o: #deps 1, deps mtime 1 (VALID)
    ../source/b.cpp

CMakeFiles/other.dir/c.cu.o: #deps 1, deps mtime 1 (VALID)
    ../source/c.cu
"""
    (tmp_path / "listed").write_text(listed, encoding="utf-8")
    (tmp_path / "bin/ninja").write_text(f'#!/bin/sh\necho "$*" >{tmp_path}/asked\ncat {tmp_path}/listed\n')
    (tmp_path / "bin/ninja").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    cmake_manifest.write_reads(argparse.Namespace(source=source, work=work, out=out), ["one", "none"])
    found = json.loads((out / "reads.json").read_text(encoding="utf-8"))
    assert found == {"one": {"csrc/a.cu": ["csrc/a.cu", "csrc/a.h"], "b.cpp": ["b.cpp"]}}
    assert (tmp_path / "asked").read_text(encoding="utf-8") == f"-C {work} -t deps\n"
