"""Diffs given by hand on the real releases: where they arrive, which patches of ours they meet, what goes with them."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from packaging.version import Version

from gb10.core.fetch import store_paths
from gb10.errors import PatchError
from gb10.image.build.cache_status import try_inputs
from gb10.image.build.input_checks import patched_source
from gb10.image.locked_files import fetch_locked
from gb10.image.patches.patched import patched_files
from gb10.image.patches.series import load_series
from gb10.image.patches.verdict import judge_series
from gb10.image.patches.write import file_diff
from gb10.image.plan.catalog import ROOT
from gb10.image.plan.values import Plan, Step, wheel_inputs
from gb10.image.request.planning import Request, make_plan
from tests.integration.patches.releases import ctx, opened, original

pytestmark = pytest.mark.integration

FLASHINFER, VLLM = "0.7.2.post1", "0.33.0"
BUILDER = "include/cutlass/gemm/collective/builders/sm120_blockscaled_mma_builder.inl"
KERNELS = "flashinfer/jit/gemm/cutlass/generate_kernels.py"
GATE = "vllm/_custom_ops.py"
ASKED = Request(engine="vllm", arch="12.1f")


def changed(source: str, version: str, path: str, before: str, after: str, *, place: str = "") -> bytes:
    """A diff of one file of a release, its path as ``place``."""
    text = original(source, version, path)
    assert text.count(before) >= 1
    return file_diff(place or path, text.encode(), text.replace(before, after, 1).encode())


def two_files(place: str) -> bytes:
    """The fix that people publish as two files: a header of CUTLASS, and FlashInfer's list of tiles."""
    header = changed("flashinfer", FLASHINFER, f"3rdparty/cutlass/{BUILDER}", "namespace ", "// ours\nnamespace ",
                     place=place + BUILDER)  # fmt: skip
    return header + changed("flashinfer", FLASHINFER, KERNELS, "[128, 32, 128]", "[128, 32, 64]")


def planned(tmp_path: Path, text: bytes, *, source: str = "", without: tuple[str, ...] = ()) -> Plan:
    (tmp_path / "pr.diff").write_bytes(text)
    return make_plan(ctx(), replace(ASKED, patches=(f"{source}{tmp_path}/pr.diff",), without_patches=without))


def compiled(plan: Plan, name: str) -> Mapping[str, Path | bytes]:
    """The files that the stage of a wheel lays over its source archive."""
    (origin,) = (one for one in wheel_inputs(plan, name).origins if one.context == "source")
    fetch_locked(ctx(), [origin.file])
    return patched_source(ctx(), origin)


def grafted(plan: Plan, step: Step) -> Mapping[str, bytes | None]:
    """The files that a graft changes in its wheel."""
    fetch_locked(ctx(), step.files)
    (wheel,) = store_paths(ctx().store, step.files)
    uses = [use for use in plan.options.patches_of(step.project or "") if use.installable]
    return patched_files(ROOT / "patches", wheel, uses, lambda _: None)


@pytest.mark.slow
def test_the_header_is_in_all_that_compile_with_cutlass(tmp_path: Path) -> None:
    plan = planned(tmp_path, two_files("3rdparty/cutlass/"))
    for name in ("flashinfer-jit-cache", "gb10-kernels"):
        header = compiled(plan, name)[f"3rdparty/cutlass/{BUILDER}"]
        assert isinstance(header, bytes)
        assert b"// ours\nnamespace " in header
    tiles = compiled(plan, "flashinfer-jit-cache")[KERNELS]
    assert isinstance(tiles, bytes)
    assert b"[128, 32, 64]" in tiles
    assert KERNELS not in compiled(plan, "gb10-kernels")
    wheel = grafted(plan, plan.step("graft-flashinfer-python"))
    assert b"// ours\nnamespace " in (wheel[f"flashinfer/data/cutlass/{BUILDER}"] or b"")
    assert b"[128, 32, 64]" in (wheel[KERNELS] or b"")


@pytest.mark.slow
def test_the_engines_own_targets_get_it_too(tmp_path: Path) -> None:
    (tmp_path / "pr.diff").write_bytes(two_files(""))
    asked = replace(ASKED, patches=(f"{tmp_path}/pr.diff",), targets=("_C_stable_libtorch",))
    plan = make_plan(ctx(), asked)
    (origin,) = (one for one in wheel_inputs(plan, "vllm").origins if one.context == "cutlass")
    header = patched_source(ctx(), origin)[f"3rdparty/cutlass/{BUILDER}"]
    assert isinstance(header, bytes)
    assert b"// ours\nnamespace " in header


@pytest.mark.slow
def test_a_diff_of_what_ours_adds_changes_what_is_compiled_over_it(tmp_path: Path) -> None:
    """FlashInfer's CUTLASS has no such file: it keeps its key."""
    (ours,) = load_series(ROOT / "patches", "cutlass")
    path = next(path for path in ours.files if path.endswith("sm120_mma_array_tma.hpp"))
    plan = planned(tmp_path, file_diff(path, ours.files[path], b"// ours\n" + ours.files[path]))
    assert compiled(plan, "gb10-kernels")[f"3rdparty/cutlass/{path}"] == b"// ours\n" + ours.files[path]
    assert not [use for use in plan.options.patches if use.path and use.source == "flashinfer"]
    assert plan.step("flashinfer-jit-cache").key == make_plan(ctx(), ASKED).step("flashinfer-jit-cache").key


def test_a_diff_that_meets_ours_is_told_which_and_how_to_go_on(tmp_path: Path) -> None:
    text = changed("vllm", VLLM, GATE, "cuda_device_capability >= 110", "cuda_device_capability >= 130")
    plan = planned(tmp_path, text)
    with pytest.raises(PatchError, match="our patch vllm/0003-fp8-moe-by-gb10-kernels changes, too") as caught:
        grafted(plan, plan.step("graft-vllm"))
    assert "build without it: --without-patch vllm/0003-fp8-moe-by-gb10-kernels" in (caught.value.hint or "")
    assert f"{GATE}:" in (caught.value.where or "")
    less = planned(tmp_path, text, without=("vllm/0003",))
    assert b"cuda_device_capability >= 130" in (grafted(less, less.step("graft-vllm"))[GATE] or b"")


def test_a_diff_that_meets_two_of_ours_is_told_both(tmp_path: Path) -> None:
    ours = "vllm/platforms/cuda.py"
    text = changed("vllm", VLLM, GATE, "cuda_device_capability >= 110", "cuda_device_capability >= 130")
    verdicts = judge_series(load_series(ROOT / "patches", "vllm"), Version(VLLM), opened("vllm", VLLM).tree)
    (attention,) = (one for one in verdicts if one.patch.id.startswith("0007"))
    before, after = original("vllm", VLLM, ours), (attention.changes[ours] or b"").decode()
    lines = before.splitlines(keepends=True)
    at = next(at for at, one in enumerate(after.splitlines(keepends=True)) if one != lines[at])
    other = "".join([*lines[:at], "# other\n", *lines[at:]])
    text += file_diff(ours, before.encode(), other.encode())
    plan = planned(tmp_path, text)
    with pytest.raises(PatchError, match="meets patches of ours") as caught:
        grafted(plan, plan.step("graft-vllm"))
    names = ("vllm/0003-fp8-moe-by-gb10-kernels", "vllm/0007-attention-with-code-for-12x")
    assert " ".join(f"--without-patch {name}" for name in names) in (caught.value.hint or "")
    less = planned(tmp_path, text, without=names)
    assert ours in grafted(less, less.step("graft-vllm"))


def test_a_diff_of_another_release_is_not_blamed_on_ours(tmp_path: Path) -> None:
    old = "cuda_device_capability >= 110"
    text = changed("vllm", "0.17.1", GATE, old, "cuda_device_capability >= 130")
    assert text
    plan = planned(tmp_path, text.replace(b" def ", b" gone ").replace(b"     ", b"    x"))
    with pytest.raises(PatchError, match="does not apply") as caught:
        grafted(plan, plan.step("graft-vllm"))
    assert "rebase it on the release" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("source", "version"),
    [("vllm", VLLM), ("flashinfer", FLASHINFER), ("sglang", "0.5.10"), ("sglang", "0.5.23"), ("cutlass", "4.5.0")],
)
def test_patches_that_need_others_say_so(source: str, version: str) -> None:
    """Without each patch, and those that say that they need it, all others still apply."""
    series, tree = load_series(ROOT / "patches", source), opened(source, version).tree
    there = [one.patch for one in judge_series(series, Version(version), tree) if one.outcome == "applies"]
    assert there
    for gone in there:
        name = f"{gone.source}/{gone.id}"
        left = [patch for patch in there if patch is not gone and name not in patch.record.needs]
        assert [one.outcome for one in judge_series(left, Version(version), tree)] == ["applies"] * len(left), name


def test_every_need_is_a_patch_of_ours() -> None:
    sources = [path.parent.name for path in (ROOT / "patches").glob("*/series")]
    every = [patch for source in sources for patch in load_series(ROOT / "patches", source)]
    assert {need for patch in every for need in patch.record.needs} <= {f"{one.source}/{one.id}" for one in every}


def test_a_dry_run_judges_a_diff_with_the_paths_of_a_container(tmp_path: Path) -> None:
    """The wheel and the source archive that it changes are fetched for that."""
    place = f"usr/local/lib/python3.12/dist-packages/{KERNELS}"
    text = changed("flashinfer", FLASHINFER, KERNELS, "[128, 32, 128]", "[128, 32, 64]", place=place)
    assert try_inputs(ctx(), planned(tmp_path, text)) is None
    stale = text.replace(b"[128, 32, 128]", b"[128, 32, 129]", 1)
    with pytest.raises(PatchError, match=r"pr\.diff does not apply") as caught:
        try_inputs(ctx(), planned(tmp_path, stale))
    assert "the context changed" in str(caught.value.where)
