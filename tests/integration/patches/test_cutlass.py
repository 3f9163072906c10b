"""The CUTLASS series on the tree that FlashInfer bundles: what lies where, before and after. Nothing is compiled."""

import pytest
from packaging.version import Version

from gb10.cli.patch.patches import library
from gb10.errors import UsageError
from gb10.image.lock.lockfile import load_lock, load_recipe, lock_path
from gb10.image.patches.archives import Repacked
from gb10.image.patches.patched import patched_files
from gb10.image.patches.releases import load_releases
from gb10.image.patches.selection import plan_patches
from gb10.image.patches.source_tree import Below, Changed
from gb10.image.patches.verdict import ask, judge, status
from gb10.image.plan.catalog import ROOT
from tests.integration.patches.releases import ctx, opened, variants

pytestmark = pytest.mark.integration

PATCH = "0001-sm120-ptr-array-f8"
RECIPE = ROOT / "recipes/images/vllm.yaml"
COLLECTIVE = "include/cutlass/gemm/collective"
CHANGED = {
    f"{COLLECTIVE}/builders/sm120_array_mma_builder.inl",
    f"{COLLECTIVE}/builders/sm120_mma_builder.inl",
    f"{COLLECTIVE}/collective_builder.hpp",
    f"{COLLECTIVE}/collective_mma.hpp",
    f"{COLLECTIVE}/sm120_mma_array_tma.hpp",
}


def test_the_bundled_tree_is_read_in_the_archive_of_flashinfer() -> None:
    around, bundled = opened("flashinfer", "0.7.2.post1").tree, opened("cutlass", "4.5.0").tree
    assert isinstance(bundled, Below)
    assert isinstance(around, Repacked)
    assert isinstance(bundled.around, Repacked)
    assert bundled.around.archive.filename == around.archive.filename


def test_archives_that_are_said_to_bundle_a_release_have_the_same_files() -> None:
    own = load_releases(ctx().catalog.patches).source("flashinfer").releases
    release = load_releases(ctx().catalog.patches).source("cutlass").releases["4.5.0"]
    bundled = opened("cutlass", "4.5.0").tree
    for version in (version for version, one in own.items() if one.sha256 in release.also):
        other = Below(opened("flashinfer", version).tree, str(release.folder))
        assert other.paths() == bundled.paths()
        assert all(other.read(path) == bundled.read(path) for path in bundled.paths())


def test_after_the_patch_the_release_has_the_grouped_mainloop() -> None:
    release = opened("cutlass", "4.5.0")
    (patch,) = variants("cutlass", PATCH)
    verdict = judge(patch, release.version, release.tree)
    assert set(verdict.changes) == CHANGED
    assert ask(patch.record, Changed(release.tree, verdict.changes)).answer == "present"
    for path in CHANGED - {f"{COLLECTIVE}/builders/sm120_mma_builder.inl"} - set(patch.files):
        half = Changed(release.tree, {**verdict.changes, path: release.tree.read(path)})
        assert judge(patch, release.version, half).outcome == "unknown-shape", path


def test_a_build_that_names_cutlass_patches_it_in_the_archive_that_it_compiles() -> None:
    recipe, lock = load_recipe(RECIPE), load_lock(lock_path(RECIPE))
    named = recipe.model_copy(update={"patches": ("cutlass",)})
    (use,) = plan_patches(ctx().catalog.patches, named, lock, "arm64", ())
    sdist = lock.sdists["flashinfer-python"]
    path = ctx().store.entry("downloads", sdist.sha256) / sdist.filename
    release = opened("cutlass", "4.5.0")
    (patch,) = variants("cutlass", PATCH)
    expected = judge(patch, release.version, release.tree).changes
    assert patched_files(ctx().catalog.patches, path, [use], ctx().reporter.say) == {
        f"3rdparty/cutlass/{name}": text for name, text in expected.items()
    }


def test_a_release_that_is_on_no_index_is_asked_for_as_files() -> None:
    with pytest.raises(
        UsageError, match=r"cutlass 4\.5\.2 is not pinned, and cutlass is on no package index"
    ) as caught:
        status(library(ctx()), "cutlass", [Version("4.5.2")])
    assert "--tree DIR --ref 4.5.2" in str(caught.value)
