"""A maintainer's day: a patch carried over to a release it no longer fits, a new one from an edited tree."""

import datetime
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from packaging.version import Version

from gb10.cli.patch.patches import library
from gb10.core.proc import capture
from gb10.errors import PatchError
from gb10.image.context import Context
from gb10.image.patches.diff import Hunk, parse_diff
from gb10.image.patches.maintain import new_patch, refresh
from gb10.image.patches.releases import load_releases
from gb10.image.patches.series import load_series
from gb10.image.patches.verdict import find_patches, judge
from gb10.image.plan.catalog import ROOT, Catalog
from tests.integration.patches.releases import ctx, opened, original

pytestmark = pytest.mark.integration

MOVED = "vllm/0001-cutlass-moe-reachable-on-sm12x"
GATE = "vllm/_custom_ops.py"
GONE = "vllm/connections.py"


def archive(source: str, version: str) -> Path:
    opened(source, version)
    pin = load_releases(ctx().catalog.patches).source(source).releases[version]
    return ctx().store.entry("downloads", pin.sha256) / pin.filename


def test_a_patch_follows_its_file_to_another_folder() -> None:
    """The variant for 0.22 and later was written by hand: carried over from the older one, it is the same."""
    made = refresh(library(ctx()), find_patches(ctx().catalog.patches, f"{MOVED}.patch")[0], archive("vllm", "0.33.0"))
    (diff,) = parse_diff(made, "refreshed.patch")
    (by_hand,) = find_patches(ctx().catalog.patches, f"{MOVED}@0.22.0.patch")[0].diffs
    assert diff.path == by_hand.path

    def changed(hunks: tuple[Hunk, ...]) -> list[bytes]:
        return [line for hunk in hunks for line in hunk.new if line not in hunk.old]

    assert changed(diff.hunks) == changed(by_hand.hunks)


def test_what_upstream_rewrote_is_a_conflict_with_its_line() -> None:
    with pytest.raises(PatchError, match="cannot be carried over") as caught:
        refresh(
            library(ctx()),
            find_patches(ctx().catalog.patches, "cutlass-dsl/0001-warp-mma-accepts-sm121")[0],
            archive("cutlass-dsl", "4.5.1"),
        )
    assert caught.value.where is not None
    assert "warp/mma.py:" in caught.value.where


@pytest.mark.slow
def test_a_new_patch_from_an_edited_tree(tmp_path: Path) -> None:
    for name in ("patches", "kernels"):
        shutil.copytree(ROOT / name, tmp_path / name)
    other: Context = replace(ctx(), catalog=Catalog(tmp_path))
    capture(["tar", "-xf", str(archive("vllm", "0.33.0")), "-C", str(tmp_path)])
    tree = tmp_path / "vllm-0.33.0"
    text = original("vllm", "0.33.0", GATE)
    (tree / GATE).write_text(
        text.replace("cuda_device_capability >= 110", "cuda_device_capability >= 130"), encoding="utf-8"
    )
    (tree / GONE).unlink()
    (tree / "vllm/empty.py").touch()
    (tree / "vllm/__pycache__").mkdir()
    (tree / "vllm/__pycache__/a.pyc").write_bytes(b"\0")
    series = tmp_path / "patches/vllm/series"
    series.write_text(series.read_text(encoding="utf-8").rstrip(), encoding="utf-8")
    last = max(int(path.name[:4]) for path in series.parent.glob("[0-9]*"))
    today = datetime.date(2026, 11, 21)
    path = new_patch(library(other), "vllm", "wider-gate", Version("0.33.0"), tree, today=today)
    assert path.name == f"{last + 1:04}-wider-gate.patch"
    record = path.with_suffix(".yaml")
    probe = record.read_text(encoding="utf-8").replace(GONE, GATE).replace("'WRITE THIS'", "'>= 110'", 1)
    record.write_text(probe, encoding="utf-8")
    patch = load_series(tmp_path / "patches", "vllm")[-1]
    release = opened("vllm", "0.33.0")
    assert judge(patch, release.version, release.tree).outcome == "applies"
    assert {diff.path: diff.kind for diff in patch.diffs} == {GATE: "change", GONE: "delete", "vllm/empty.py": "add"}
    (tree / "vllm/picture.png").write_bytes(b"\x89PNG\0")
    with pytest.raises(PatchError, match=r"picture\.png is no text"):
        new_patch(library(other), "vllm", "more", Version("0.33.0"), tree, today=today)
    with pytest.raises(PatchError, match="files of the release are not in"):
        new_patch(library(other), "vllm", "part", Version("0.33.0"), tree / "vllm", today=today)
    (tree / "vllm/picture.png").unlink()
    (tree / "CMakeLists.txt").unlink()
    before = series.read_bytes()
    with pytest.raises(PatchError, match="changes what a wheel holds and what it does not"):
        new_patch(library(other), "vllm", "both", Version("0.33.0"), tree, today=today)
    assert series.read_bytes() == before
