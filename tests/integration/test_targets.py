"""CMake targets of vLLM's own project for real: configured across over the locked torch, compiled, grafted."""

import os
import shutil
import zipfile
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from packaging.utils import parse_wheel_filename

from gb10.containers.reach import connect_or_start
from gb10.core.fetch import store_paths
from gb10.core.store import Store
from gb10.errors import FetchError, UsageError
from gb10.image.build.input_checks import check_sources
from gb10.image.build.wheels import Wheel, build_wheels, installable, late_grafts
from gb10.image.context import Context, open_context
from gb10.image.locked_files import fetch_files, fetch_locked
from gb10.image.patches.release_files import open_stored
from gb10.image.plan.values import Plan, source_archive
from gb10.image.proof.reading import scan_path
from gb10.image.request.planning import Request, make_plan
from gb10.image.request.unit_reads import known_reads
from gb10.inside.compile import cmake_nested
from tests.integration.debian_git import put_on_path

pytestmark = [pytest.mark.integration, pytest.mark.long]

TARGETS = {
    "deepgemm": ("_deep_gemm_C",),
    "deepselect": ("_deepselect_C",),
    "flashkda": ("_flashkda_C",),
    "flashmla": ("_flashmla_C", "_flashmla_extension_C"),
    "fmha_sm100": ("fmha_sm100",),
    "qutlass": ("_qutlass_C",),
    "tml_fa4": ("tml_fa4",),
    "triton_kernels": ("triton_kernels",),
    "vllm_flash_attn": ("_vllm_fa4_cutedsl_C", "_vllm_fa2_C", "_vllm_fa3_C"),
}
SMALL = ("spinloop", "fs_io_C")  # no GPU code: the whole way in seconds of compiling


@pytest.fixture(scope="module")
def ctx() -> Context:
    return open_context(os.environ, verbosity=0)


def plan_of(ctx: Context, targets: Sequence[str]) -> Plan:
    return make_plan(ctx, Request(engine="vllm", arch="12.1f", targets=tuple(targets)))


def compiled(ctx: Context, plan: Plan) -> Wheel:
    alone = replace(plan, steps=tuple(step for step in plan.steps if step.kind != "wheel" or step.name == "vllm"))
    return build_wheels(ctx, alone, lambda: connect_or_start(ctx.env, ctx.store), rebuild=())[0]


@pytest.fixture(scope="module")
def grafted(ctx: Context) -> tuple[Path, Path]:
    """Upstream's wheel, and the one with our targets laid over it."""
    plan = plan_of(ctx, SMALL)
    wheel = compiled(ctx, plan)
    assert installable(plan, [wheel]) == ()
    made = next(wheel for wheel in late_grafts(ctx, plan) if wheel.name == "graft-vllm")
    fetch_files(ctx, [plan.step("graft-vllm")])  # a graft that is there already fetches nothing
    (upstream,) = store_paths(ctx.store, plan.step("graft-vllm").files)
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


def test_the_grafted_wheels_tag_promises_no_older_glibc_than_the_libraries_need(
    grafted: tuple[Path, Path], tmp_path: Path
) -> None:
    with zipfile.ZipFile(grafted[1]) as ours:
        ours.extractall(tmp_path, [f"vllm/{name}.abi3.so" for name in SMALL])
    needed = [int(one.versions["GLIBC"].partition(".")[2]) for one in scan_path(tmp_path).binaries]
    before, after = ({one.platform for one in parse_wheel_filename(path.name)[3]} for path in grafted)
    assert before == {"manylinux_2_28_aarch64"}
    (tag,) = after
    assert int(tag.split("_")[2]) >= max(28, *needed)


def test_what_the_compiler_read_of_the_project_is_kept_by_its_source(ctx: Context, grafted: tuple[Path, Path]) -> None:
    """The compiler's own lists, for the units of a changed file; torch's and CUDA's headers are not in them."""
    assert grafted[1].exists()
    plan = plan_of(ctx, SMALL)
    found = known_reads(ctx.store, source_archive("vllm", plan.recipe, plan.lock).sha256)
    assert set(SMALL) <= set(found)
    for target in SMALL:
        assert all(unit in paths for unit, paths in found[target].items())
        assert all(path.startswith("csrc/") for paths in found[target].values() for path in paths)


def test_the_same_again_is_a_hit(ctx: Context, grafted: tuple[Path, Path]) -> None:
    assert grafted[1].exists()
    assert compiled(ctx, plan_of(ctx, SMALL)).hit


def test_without_targets_nothing_of_the_project_is_read(ctx: Context) -> None:
    plan = plan_of(ctx, [])
    assert "vllm" not in {step.name for step in plan.steps}
    assert not [use for use in plan.options.patches if use.compiled and use.source == "vllm"]
    compiled = [use.name for use in plan_of(ctx, SMALL).options.patches if use.compiled and use.source == "vllm"]
    assert compiled == [
        "0002-stale-cutlass-source@0.24.0.patch",
        "0004-sm120-fp8-moe-in-tree",
        "0005-scaled-mm-c2x-before-sm90.patch",
    ]


def test_a_name_that_is_no_target_is_refused_before_anything_runs(ctx: Context) -> None:
    with pytest.raises(UsageError, match="--targets a b"):
        plan_of(ctx, ["a b"])
    with pytest.raises(UsageError, match="the project has no CMake target foo") as caught:
        check_sources(ctx, plan_of(ctx, ["foo", *SMALL]))
    assert "_C_stable_libtorch" in (caught.value.where or "")


@pytest.fixture(scope="module")
def project(ctx: Context, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The .cmake files of the locked release's nested projects, where the release has them."""
    folder = tmp_path_factory.mktemp("vllm")
    (sdist,) = [file for file in plan_of(ctx, SMALL).step("vllm").files if file.filename.startswith("vllm-")]
    fetch_locked(ctx, [sdist])
    tree = open_stored(ctx.store, store_paths(ctx.store, [sdist])[0], sdist)
    for name in (path for path in tree.paths() if path.startswith(f"{cmake_nested.FOLDER}/")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(tree.read(name) or b"")
    return folder


def test_every_nested_project_of_the_locked_release_is_read(ctx: Context, project: Path) -> None:
    """vLLM's own files: nine projects, and the recipe's is at the commit that vLLM names."""
    found = {path.stem: cmake_nested.read(path) for path in (project / cmake_nested.FOLDER).iterdir()}
    assert {name: one.targets for name, one in found.items()} == TARGETS
    assert all(one.url.startswith("https://github.com/") and one.pin and one.variable for one in found.values())
    assert (found["triton_kernels"].pin, found["triton_kernels"].url.rsplit("/", 1)[1]) == ("v3.5.1", "triton.git")
    assert found["deepgemm"].submodules == ("third-party/cutlass", "third-party/deep_jit")
    source = plan_of(ctx, ()).recipe.sources["qutlass"]
    assert (source.git, source.commit) == (found["qutlass"].url, found["qutlass"].pin)


def test_a_commit_that_is_not_the_engines_stops_with_both(project: Path) -> None:
    asked = Namespace(source=project, nested=[("qutlass", "1a" * 20, "/n")])
    with pytest.raises(SystemExit, match=r"the engine names qutlass e74319e3405c.*, the source brings 1a1a1a1a"):
        cmake_nested.hand_in(asked)


def test_a_git_host_that_cannot_be_reached_stops_before_an_engine_is_asked(
    ctx: Context, git_root: Path, tmp_path: Path
) -> None:
    (git_root / "unreachable").write_text('[url "file:///nowhere/"]\n insteadOf = https://github.com/\n')
    env = {**ctx.env, "PATH": put_on_path(git_root, tmp_path), "GIT_CONFIG_GLOBAL": "/unreachable", "HOME": "/"}
    away = replace(ctx, store=Store(git_root / "away"), env=env)
    with pytest.raises(
        FetchError, match=r"qutlass: cannot take the commit e74319e3405c.* from git: qutlass-0"
    ) as caught:
        check_sources(away, plan_of(ctx, ("_qutlass_C",)))
    assert "or build without it: leave its targets out of --targets, or qutlass out of nested" in str(caught.value)
    shutil.rmtree(git_root / "away")
