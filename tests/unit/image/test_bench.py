"""A benchmark's lines, judged and shown, and the plan of its program."""

import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from gb10.cli.machine.bench import document, print_measured, sizes_table, times_table
from gb10.core.fields import Architecture
from gb10.errors import BuildError, UsageError, VerifyError
from gb10.image.context import open_context
from gb10.image.gemm.gemm_benchmarks import BuiltProgram, Line, judge, published_gemms, read_lines, run, sort_lines
from gb10.image.lock.lockfile import load_lock, load_recipe, lock_path
from gb10.image.plan.catalog import ROOT
from gb10.image.plan.dag import GEMM, plan_image, plan_program
from gb10.image.plan.options import Options, PatchUse
from gb10.image.plan.values import Plan, Toolkit
from gb10.image.recipe.arch import parse_arch
from tests.recipes import SHIPPED

RECIPE = ROOT / "recipes/images/vllm.yaml"
GEMMS = ROOT / "benches/gemm"
PATCHES = (
    PatchUse(source="cutlass", project="flashinfer-python", name="c.patch", sha256="1" * 64, folder="3rdparty/cutlass"),
    PatchUse(source="flashinfer", project="flashinfer-python", name="f.patch", sha256="2" * 64),
)
SIZE = '{"kind": "size", "kernel": "k", "bytes": 76000, "limit": 101376, "stages": 2, "threads": 384, "ok": true}\n'
RIGHT = '{"kind": "result", "kernel": "k", "error": 1.7e-03, "limit": 1e-02, "said": "", "ok": true}\n'
WRONG = '{"kind": "result", "kernel": "k", "error": 1.0e+30, "limit": 1e-02, "said": "no launch", "ok": false}\n'
GPU = '{"kind": "gpu", "name": "A GPU", "capability": "12.1", "multiprocessors": 48, "gb10": true}\n'
TIME = (
    '{"kind": "time", "kernel": "nvfp4_k", "shape": "dense 4096x14336x4096", "m": 1, "n": 2, "k": 3, "experts": 1, '
    '"ms": 2.5, "tflops": 178.0, "of_peak": 0.356}\n'
)
DENSE = ("dense", "4096x14336x4096")
NO_GPU = '{"kind": "not-run", "what": "results and times", "why": "there is no GPU"}\n'
PROGRAM = BuiltProgram(name="gemm", key="0" * 64, path=Path("/store/gemm"), checks=(), hit=False)


def image_plan(arch: str = "12.1f", build: Architecture = "amd64", patches: tuple[PatchUse, ...] = ()) -> Plan:
    target = parse_arch(arch)
    options = Options(arch=target, platform=target.platform, build=build, patches=patches)
    return plan_image(load_recipe(RECIPE), load_lock(lock_path(RECIPE)), SHIPPED.toolkit, options)


def ran(folder: Path, text: str, *, code: int) -> tuple[Line, ...]:
    """What is read from a program that prints a text and ends with a code."""
    program = folder / "gemm"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{text}END\nexit {code}\n", encoding="utf-8")
    program.chmod(0o755)
    env = {"GB10_CACHE_DIR": str(folder / "store"), "XDG_CONFIG_HOME": str(folder), "PATH": os.environ["PATH"]}
    return run(open_context(env, verbosity=-1), replace(PROGRAM, path=program))


def shown(table: object) -> str:
    console = Console(width=160)
    with console.capture() as text:
        console.print(table)
    return text.get()


def test_a_wrong_result_is_exit_9_and_names_its_line() -> None:
    with pytest.raises(VerifyError, match=r"1 of 2 checks of gemm are wrong") as caught:
        judge(sort_lines(read_lines(SIZE + WRONG)), PROGRAM, require_gpu=False)
    assert '"said": "no launch"' in str(caught.value)


def test_no_gpu_is_wrong_only_when_one_is_required() -> None:
    measured = sort_lines(read_lines(SIZE + NO_GPU))
    judge(measured, PROGRAM, require_gpu=False)
    with pytest.raises(VerifyError, match="measured nothing") as caught:
        judge(measured, PROGRAM, require_gpu=True)
    assert "there is no GPU" in str(caught.value)


def test_a_program_that_did_not_start_is_no_wrong_check(tmp_path: Path) -> None:
    """The loader, too, ends with 1: as where the C library is too old."""
    with pytest.raises(BuildError, match="gemm failed with exit code 1") as caught:
        ran(tmp_path, "version GLIBC_9 not found\n", code=1)
    assert "GLIBC_9" in str(caught.value)


def test_a_wrong_check_ends_no_run(tmp_path: Path) -> None:
    assert ran(tmp_path, SIZE + WRONG, code=1) == read_lines(SIZE + WRONG)
    assert ran(tmp_path, f"talk\n{SIZE}{RIGHT}{GPU}{TIME}", code=0) == read_lines(SIZE + RIGHT + GPU + TIME)
    with pytest.raises(BuildError, match="gemm failed with exit code 2"):
        ran(tmp_path, SIZE + WRONG, code=2)


def test_what_a_program_says_beside_its_lines_is_not_read() -> None:
    assert read_lines(f"a warning\n{SIZE}") == (json.loads(SIZE),)


def test_the_table_holds_times_against_the_peak_and_what_was_published() -> None:
    text = shown(times_table(sort_lines(read_lines(GPU + TIME))))
    assert "A GPU, 48 multiprocessors, 12.1" in text
    assert text.split("\n")[2].split() == [*DENSE, "nvfp4_k", "2.500", "178.0", "36%", "356", "50%"]


def test_another_gpu_is_not_held_against_figures_of_a_gb10() -> None:
    text = shown(times_table(sort_lines(read_lines(GPU + TIME.replace("0.356", "null")))))
    assert text.split("\n")[2].split() == [*DENSE, "nvfp4_k", "2.500", "178.0"]


@pytest.mark.parametrize(
    ("lines", "said"),
    [(SIZE, "not run"), (SIZE + RIGHT, "right, error 1.7e-03"), (SIZE + WRONG, "WRONG, error 1.0e+30 no launch")],
)
def test_the_sizes_stand_beside_the_results(lines: str, said: str) -> None:
    row = shown(sizes_table(sort_lines(read_lines(lines)))).split("\n")[1]
    assert row.split()[:5] == ["k", "76,000", "101,376", "2", "384"]
    assert said in row


def test_the_document_holds_every_line() -> None:
    told = document(plan_program(GEMM, image_plan(), SHIPPED.toolkit), PROGRAM, sort_lines(read_lines(GPU + TIME)))
    assert (told["schema"], told["arch"], told["platform"]) == ("gb10/bench/v1", "12.1f", "linux/arm64")
    assert told["times"] == [{**json.loads(TIME), "published": 356}]
    assert told["not_run"] is None


def test_a_program_takes_the_compilers_and_the_patches_of_cutlass_alone() -> None:
    plan = plan_program(GEMM, image_plan(patches=PATCHES), SHIPPED.toolkit)
    assert [step.name for step in plan.steps] == ["base-build", "tools", "gemm"]
    assert plan.options.patches == PATCHES[:1]
    assert {file.filename.split("-")[0] for file in plan.step("gemm").files} == {
        "flashinfer_python",
        "nvidia_cuda_cccl",
        "nvidia_cuda_crt",
        "nvidia_cuda_runtime",
    }


def test_the_key_moves_with_what_is_compiled_and_with_nothing_else() -> None:
    toolkit, image = SHIPPED.toolkit, image_plan()
    key = plan_program(GEMM, image, toolkit).key
    for file in (
        "benches/gemm/main.cpp",
        "units/moe/tiles.h",
        "inside/compile/program.py",
        "inside/compile/extension.py",
    ):
        changed = Toolkit(digests={**toolkit.digests, file: "0"}, templates=toolkit.templates)
        assert plan_program(GEMM, image, changed).key != key, file
    same = Toolkit(digests={**toolkit.digests, "benches/noop.py": "0"}, templates=toolkit.templates)
    later = replace(image, lock=image.lock.model_copy(update={"created": image.lock.created.replace(year=2099)}))
    assert plan_program(GEMM, image, same).key == plan_program(GEMM, later, toolkit).key == key
    others = {plan_program(GEMM, image_plan(arch), toolkit).key for arch in ("12.1a", "12.0f")}
    assert len({key, plan_program(GEMM, image_plan(patches=PATCHES), toolkit).key, *others}) == 4


def test_a_recipe_without_the_source_is_told_so() -> None:
    image = image_plan()
    bare = replace(image, recipe=image.recipe.model_copy(update={"sources": {}, "wheels": {}}))
    with pytest.raises(UsageError, match="has no source 'flashinfer'"):
        plan_program(GEMM, bare, SHIPPED.toolkit)


def test_every_kernel_has_a_unit_of_its_name() -> None:
    names = re.findall(r"^ +X\((\w+),", (GEMMS / "gemm.h").read_text(encoding="utf-8"), re.MULTILINE)
    assert 0 < len(names) <= 6  # a unit takes more than a minute
    for name in names:
        assert (GEMMS / f"{name}.cu").read_text(encoding="utf-8").splitlines()[-1] == f"GB10_UNIT({name})"


def test_published_figures_have_a_source_and_a_format_or_say_that_none_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_measured(os.environ, PROGRAM, sort_lines(read_lines(SIZE + NO_GPU)))
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    told = [line.partition(": ")[0] for line in lines[lines.index("program: /store/gemm") + 2 :]]
    assert told == ["356  NVFP4", "120  NVFP4", "188  FP8", "154  format not named", "147  format not named", "source"]
    assert "https://" in lines[-1]


def test_a_figure_stands_beside_a_shape_that_is_timed() -> None:
    shapes = (GEMMS / "shapes.h").read_text(encoding="utf-8")
    named = [one.shape for one in published_gemms().figures if one.shape]
    assert all(f'"{shape}"' in shapes for shape in named)
    assert all(f'"{shape}"' in shapes for shape in (*named, "8 experts, n 256"))


def test_a_published_figure_without_a_shape_stands_beside_no_line() -> None:
    """188 TFLOPS in FP8 are of a large GEMM that its source does not name."""
    found = published_gemms()
    line = {"of_peak": 0.3, "shape": "dense 4096x14336x4096", "kernel": "fp8_k"}
    assert found.beside(line) is None
    assert found.beside({**line, "kernel": "nvfp4_k"}) == 356
    assert 188 in [one.tflops for one in found.figures]
