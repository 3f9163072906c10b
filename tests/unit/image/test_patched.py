"""Patches of a source that a compiled archive bundles: planned by the archive's pin, applied below its folder."""

import io
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from gb10.errors import PatchError, UsageError
from gb10.image.lock.lockfile import load_lock, load_recipe, lock_path
from gb10.image.patches.patched import patched_files
from gb10.image.patches.selection import plan_patches
from gb10.image.patches.series import load_series
from gb10.image.plan.catalog import ROOT
from gb10.image.recipe.image_recipe import Recipe, Source
from gb10.image.recipe.kernel_sets import entries
from gb10.image.recipe.locked import Lock, LockedCheckout
from gb10.image.request.kernel_choice import with_set
from tests.recipes import SHIPPED
from tests.unit.image.test_patches_bundled import BUILDER, REFUSES, version_header

RECIPE = ROOT / "recipes/images/vllm.yaml"
PATCHES = ROOT / "patches"


@pytest.fixture(scope="module")
def locked() -> tuple[Recipe, Lock]:
    """The recipe of vLLM with CUTLASS among its series."""
    recipe = load_recipe(RECIPE)
    return recipe.model_copy(update={"patches": (*recipe.patches, "cutlass")}), load_lock(lock_path(RECIPE))


def test_the_bundled_tree_of_a_locked_archive_is_planned(locked: tuple[Recipe, Lock]) -> None:
    recipe, lock = locked
    (use,) = [use for use in plan_patches(PATCHES, recipe, lock, "arm64", ()) if use.source == "cutlass"]
    assert (use.project, use.folder) == ("flashinfer-python", "3rdparty/cutlass")
    assert not use.installable
    others = recipe.model_copy(update={"patches": ("vllm", "flashinfer", "cutlass-dsl")})
    assert all(not use.folder for use in plan_patches(PATCHES, others, lock, "arm64", ()))


@pytest.mark.parametrize(("version", "planned"), [("4.5.0", ["0001-sm120-ptr-array-f8"]), ("4.7.0", [])])
def test_a_tree_from_git_is_planned_as_the_release_that_it_is(
    locked: tuple[Recipe, Lock], version: str, planned: list[str]
) -> None:
    recipe, lock = from_git(*locked, version)
    uses = [use for use in plan_patches(PATCHES, recipe, lock, "arm64", ()) if use.source == "cutlass"]
    assert [use.name for use in uses] == planned
    assert all((use.project, use.folder) == ("cutlass", "") for use in uses)


def from_git(recipe: Recipe, lock: Lock, version: str) -> tuple[Recipe, Lock]:
    """Our kernels over a CUTLASS of its own."""
    source = Source(git="https://git.invalid/cutlass", tag=f"v{version}", paths=("include", "tools/util/include"))
    wheel = recipe.wheels["gb10-kernels"].model_copy(update={"source": "cutlass"})
    changes = {"sources": {**recipe.sources, "cutlass": source}, "wheels": {**recipe.wheels, "gb10-kernels": wheel}}
    file = LockedCheckout(
        name="cutlass",
        version=version,
        filename=f"cutlass-{version}.tar",
        size=1,
        sha256=version[2] * 64,
        commit="2" * 40,
        input_digest="3" * 64,
    )
    return recipe.model_copy(update=changes), lock.model_copy(update={"sdists": {**lock.sdists, "cutlass": file}})


def test_an_archive_that_no_pin_knows_is_told(locked: tuple[Recipe, Lock]) -> None:
    recipe, lock = locked
    sdists = {name: sdist.model_copy(update={"sha256": "0" * 64}) for name, sdist in lock.sdists.items()}
    with pytest.raises(UsageError, match="no pin states which source archive of this image bundles cutlass") as caught:
        plan_patches(PATCHES, recipe, lock.model_copy(update={"sdists": sdists}), "arm64", ())
    assert "flashinfer_python-0.7.2.post1.tar.gz" in str(caught.value)


def archive(path: Path, version: str, files: dict[str, str]) -> Path:
    """FlashInfer's archive, as far as these files of its CUTLASS go."""
    with tarfile.open(path, "w:gz") as packed:
        for name, text in ({"include/cutlass/version.h": version_header(version)} | files).items():
            member = tarfile.TarInfo(f"{path.name.removesuffix('.tar.gz')}/3rdparty/cutlass/{name}")
            member.size = len(text.encode())
            packed.addfile(member, io.BytesIO(text.encode()))
    return path


def test_a_diff_by_hand_changes_the_bundled_files(tmp_path: Path, locked: tuple[Recipe, Lock]) -> None:
    recipe, lock = locked
    diff = tmp_path / "pr.diff"
    diff.write_text("--- a/include/a.h\n+++ b/include/a.h\n@@ -1 +1 @@\n-old\n+new\n", encoding="utf-8")
    plain = recipe.model_copy(update={"patches": ()})
    uses = plan_patches(PATCHES, plain, lock, "arm64", [f"cutlass={diff}"])
    path = archive(tmp_path / "flashinfer_python-0.7.2.post1.tar.gz", "4.5.0", {"include/a.h": "old\n"})
    found = patched_files(PATCHES, path, uses, print)
    assert found == {"3rdparty/cutlass/include/a.h": b"new\n"}


def test_an_archive_that_bundles_another_release_stops(tmp_path: Path, locked: tuple[Recipe, Lock]) -> None:
    recipe, lock = locked
    uses = [use for use in plan_patches(PATCHES, recipe, lock, "arm64", ()) if use.folder]
    path = archive(tmp_path / "flashinfer_python-0.7.2.post1.tar.gz", "4.4.2", {BUILDER: REFUSES})
    with pytest.raises(PatchError, match=r"on cutlass 4\.4\.2: not-applicable"):
        patched_files(PATCHES, path, uses, print)
    with pytest.raises(PatchError, match="changed while it was used"):
        patched_files(PATCHES, path, [replace(uses[0], sha256="0" * 64)], print)


@pytest.mark.parametrize(("kernels", "planned"), [("core", False), ("moe", True), ("all", True)])
def test_a_patch_of_modules_is_for_builds_that_compile_one_of_them(
    locked: tuple[Recipe, Lock], kernels: str, planned: bool
) -> None:
    recipe, lock = locked
    uses = plan_patches(PATCHES, with_set(recipe, kernels), lock, "arm64", (), toolkit=SHIPPED.toolkit)
    found = {use.name.partition("-")[0] for use in uses if use.source == "flashinfer"}
    assert {"0002", "0007"} <= found
    assert ({"0008", "0009"} <= found) is planned
    assert planned or not {"0008", "0009"} & found


def test_the_modules_that_patches_name_are_of_kernel_sets() -> None:
    """A name that is none would leave its patch out of every build; one that only groups make is in each of theirs."""
    known = {entry["name"] for kernels in SHIPPED.toolkit.kernel_sets.values() for entry in entries(kernels)}
    named = {name for patch in load_series(PATCHES, "flashinfer") for name in patch.record.modules}
    assert named
    assert named - {"batch_prefill"} <= known
