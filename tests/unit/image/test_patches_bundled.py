"""A source that another one bundles: its pins, the version that its files tell, and the probe of CUTLASS on them."""

import json
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from gb10.errors import PatchError, UsageError
from gb10.image.patches.record import Record
from gb10.image.patches.release_files import open_folder
from gb10.image.patches.releases import PINS, Releases, check_told, parse_releases
from gb10.image.patches.series import Patch, load_series
from gb10.image.patches.source_tree import Below, Folder, open_tree
from gb10.image.patches.verdict import Verdict, judge
from gb10.image.plan.catalog import ROOT

RECIPE = ROOT / "recipes/images/vllm.yaml"
COLLECTIVE = "include/cutlass/gemm/collective"
MAINLOOP = f"{COLLECTIVE}/sm120_mma_array_tma.hpp"
BUILDER = f"{COLLECTIVE}/builders/sm120_mma_builder.inl"
BOTH = {
    f"{COLLECTIVE}/collective_mma.hpp": '#include "cutlass/gemm/collective/sm120_mma_array_tma.hpp"\n',
    f"{COLLECTIVE}/collective_builder.hpp": (
        '#include "cutlass/gemm/collective/builders/sm120_array_mma_builder.inl"\n'
    ),
}
REFUSES = 'static_assert(!IsPtrArrayKernel, "PtrArray kernel is not supported for this collective builder.");\n'


@pytest.fixture(scope="module")
def pins() -> Releases:
    return parse_releases((ROOT / "patches" / PINS).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def patch() -> Patch:
    (only,) = load_series(ROOT / "patches", "cutlass")
    return only


def version_header(version: str) -> str:
    parts = zip(("MAJOR", "MINOR", "PATCH"), version.split("."), strict=True)
    return "".join(f"#define CUTLASS_{name} {part}\n" for name, part in parts) + "#define CUTLASS_BUILD 0\n"


def tree(root: Path, files: dict[str, str], version: str = "4.5.0") -> Path:
    """A CUTLASS tree, as far as its version and these files go."""
    for name, text in ({"include/cutlass/version.h": version_header(version)} | files).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


def changed_pins(change: dict[str, Any]) -> str:
    document = json.loads((ROOT / "patches" / PINS).read_text(encoding="utf-8"))
    document["sources"]["cutlass"]["releases"]["4.5.0"] |= change
    return json.dumps(document)


def test_a_folder_of_a_tree_is_a_tree(tmp_path: Path) -> None:
    below = Below(Folder(tree(tmp_path / "3rdparty/cutlass", {"a.h": "A"}).parents[1]), "3rdparty/cutlass")
    assert below.paths() == ("a.h", "include/cutlass/version.h")
    assert below.read("a.h") == b"A"
    assert below.read("3rdparty/cutlass/a.h") is None
    assert Below(below, "include").paths() == ("cutlass/version.h",)
    assert not below.installed


def test_what_bundles_a_release_is_pinned_as_itself(pins: Releases) -> None:
    bundled = {release.sha256 for release in pins.source("cutlass").releases.values()}
    assert bundled <= {release.sha256 for release in pins.source("flashinfer").releases.values()}
    for change in ({"sha256": "0" * 64}, {"size": 1}, {"filename": "other.tar.gz"}):
        with pytest.raises(UsageError, match="is not one of ours") as caught:
            parse_releases(changed_pins(change))
        assert "is no pinned release of the source that bundles 3rdparty/cutlass" in str(caught.value)


def test_archives_with_the_same_folder_bundle_the_same_release(pins: Releases) -> None:
    release = pins.source("cutlass").releases["4.5.0"]
    assert release.also
    for sha256 in (release.sha256, *release.also):
        assert pins.source("cutlass").bundled(sha256) == (Version("4.5.0"), "3rdparty/cutlass")
    with pytest.raises(UsageError) as caught:
        parse_releases(changed_pins({"also": ["0" * 64]}))
    assert f"also names {'0' * 64}, which is no pinned release" in str(caught.value)


def test_a_folder_is_below_the_archive_and_needs_a_version_that_is_told() -> None:
    with pytest.raises(UsageError, match="is not below the source's root"):
        parse_releases(changed_pins({"folder": "../cutlass"}))
    without = json.loads(changed_pins({}))
    del without["sources"]["cutlass"]["told"]
    with pytest.raises(UsageError, match="a release in a folder needs `told`"):
        parse_releases(json.dumps(without))


@pytest.mark.parametrize(
    ("layout", "why"),
    [
        ({"packages": ["vllm"]}, "two sources have the package vllm"),
        (
            {"packages": ["a"], "in-wheel": {"csrc": "b/csrc"}},
            "in-wheel names b/csrc, which is in none of the packages",
        ),
        ({"packages": ["../a"]}, "not a plain path below the root"),
        ({"packages": ["a/"]}, "not a plain path below the root"),
        ({"packages": ["a"], "in-repository": {"": "a"}}, "not a plain path below the root"),
        ({"package": ["a"]}, "Extra inputs are not permitted"),
    ],
)
def test_a_layout_that_cannot_be_is_refused(layout: dict[str, Any], why: str) -> None:
    document = json.loads((ROOT / "patches" / PINS).read_text(encoding="utf-8"))
    document["sources"]["cutlass"]["layout"] = layout
    with pytest.raises(UsageError, match="is not one of ours") as caught:
        parse_releases(json.dumps(document))
    assert why in str(caught.value)


@pytest.mark.parametrize(("asked", "stale"), [("4.5.0", False), ("4.5", False), ("4.5.1", True), ("4.4.2", True)])
def test_a_tree_of_another_version_is_stale(tmp_path: Path, pins: Releases, asked: str, stale: bool) -> None:
    path = tree(tmp_path, {})
    if not stale:
        assert open_folder(path, pins, "cutlass", Version(asked)).tree.paths() == ("include/cutlass/version.h",)
        return
    with pytest.raises(PatchError) as caught:
        open_folder(path, pins, "cutlass", Version(asked))
    assert str(caught.value) == (
        f"error: stale tree: include/cutlass/version.h states cutlass 4.5.0, expected {asked}\n  {path}\n"
        f"hint: take the tree of {asked}, or name it 4.5.0"
    )


@pytest.mark.parametrize(
    ("header", "what"),
    [
        (None, "no version"),
        ("", "no version"),
        ("#define CUTLASS_MAJOR 4\n#define CUTLASS_MINOR 5\n", "no version"),
        (version_header("4.5.0") + version_header("4.6.0"), "several versions"),
    ],
)
def test_what_does_not_tell_its_version_is_no_tree(
    tmp_path: Path, pins: Releases, header: str | None, what: str
) -> None:
    told = pins.source("cutlass").told
    assert told
    if header is not None:
        tree(tmp_path, {told.file: header})
    with pytest.raises(PatchError, match=rf"no cutlass tree: include/cutlass/version\.h states {what}"):
        check_told("cutlass", told, open_tree(tmp_path), Version("4.5.0"), "here")


def test_line_ends_do_not_hide_the_version(tmp_path: Path, pins: Releases) -> None:
    header = version_header("4.5.0").replace("\n", "\r\n")
    path = tree(tmp_path, {"include/cutlass/version.h": header})
    assert open_folder(path, pins, "cutlass", Version("4.5.0")).version == Version("4.5.0")


def verdict(root: Path, patch: Patch, files: dict[str, str], version: str = "4.5.0") -> Verdict:
    return judge(patch, Version(version), open_tree(tree(root, files, version)))


@pytest.mark.parametrize(
    ("files", "answer"),
    [
        ({BUILDER: REFUSES}, "needed"),
        ({MAINLOOP: "", **BOTH}, "present"),
        ({MAINLOOP: "", **BOTH, BUILDER: REFUSES}, "present"),
        ({MAINLOOP: "", **dict(list(BOTH.items())[:1])}, "unknown-shape"),
        ({MAINLOOP: "", **dict(list(BOTH.items())[1:])}, "unknown-shape"),
        ({MAINLOOP: "", BUILDER: REFUSES}, "unknown-shape"),
        ({BUILDER: ""}, "unknown-shape"),
        ({}, "unknown-shape"),
    ],
)
def test_the_probe_knows_none_and_all_of_it(tmp_path: Path, patch: Patch, files: dict[str, str], answer: str) -> None:
    assert verdict(tmp_path, patch, files).probe.answer == answer


def test_half_of_it_stops_a_build(tmp_path: Path, patch: Patch) -> None:
    half = verdict(tmp_path, patch, {MAINLOOP: "", BUILDER: REFUSES})
    assert half.outcome == "unknown-shape"
    assert half.stops


def test_what_is_left_on_purpose_is_not_overdue(tmp_path: Path, patch: Patch) -> None:
    left = verdict(tmp_path / "old", patch, {BUILDER: REFUSES}, "4.4.2")
    assert (left.outcome, left.overdue, left.stops) == ("not-applicable", False, False)
    assert f"left so: {patch.record.left['<4.5']}" in left.why
    later = verdict(tmp_path / "new", patch, {BUILDER: REFUSES}, "4.9.0")
    assert (later.outcome, later.overdue) == ("not-applicable", True)


def test_left_names_ranges(patch: Patch) -> None:
    with pytest.raises(ValueError, match=r"'4\.5 or so' is not a range of releases"):
        Record.model_validate(patch.record.model_dump() | {"left": {"4.5 or so": "Because it is old."}})
