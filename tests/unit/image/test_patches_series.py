"""A series on disk: its names, headers and records; and the one outcome of each patch on a tree."""

import json
from pathlib import Path

import pytest
from packaging.version import Version

from gb10.errors import Gb10Error, PatchError
from gb10.image.patches.releases import PINS
from gb10.image.patches.series import Patch, load_series, read_series
from gb10.image.patches.source_tree import Changed, open_tree
from gb10.image.patches.verdict import judge, judge_series

DRIVES = ("gb10.image.patches.record",)  # through others: see tests/mutations.py

PATCH = """From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001
From: Somebody <somebody@example.invalid>
Date: Sat, 21 Nov 2026 00:00:00 +0000
Subject: [PATCH] Zeros where there was chance

Why it must be.

Origin: other
Forwarded: no
Last-Update: 2026-11-21
X-Applies-To: demo >=1.0,<2.0
---
 demo/a.py | 2 +-

diff --git a/demo/a.py b/demo/a.py
--- a/demo/a.py
+++ b/demo/a.py
@@ -1,3 +1,3 @@
 def f():
-    x = empty(3)
+    x = zeros(3)
     return x
"""
RECORD = """defect: It is chance what f returns.
fix: It returns zeros.
proven: A test that reads the file.
probe:
  - answer: needed
    why: f starts from chance
    when: [{file: "**/a.py", scope: f, ast: "empty(_)", count: 1}]
  - answer: present
    why: f starts from zeros
    when: [{file: "**/a.py", scope: f, ast: "zeros(...)"}, {file: "**/a.py", regex: "empty", count: 0}]
  - answer: superseded
    why: g does the work
    when: [{file: "**/a.py", scope: g, exists: true}]
  - answer: absent
    why: there is no f
    when: [{file: "**/a.py", scope: f, exists: false}, {file: "**/a.py", scope: g, exists: false}]
"""
SOURCE = "def f():\n    x = empty(3)\n    return x\n"


def pins(**layout: object) -> str:
    """The pins of a source with one release and this layout."""
    releases = {"1.5": {"filename": "demo-1.5.tar.gz", "sha256": "0" * 64, "size": 1}}
    return json.dumps({"sources": {"demo": {"projects": ["demo"], "layout": layout, "releases": releases}}})


def series(root: Path, **files: str) -> tuple[Patch, ...]:
    folder = root / "patches/demo"
    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        f"../{PINS}": pins(packages=["demo"]),
        "series": "0001-zeros.patch\n",
        "0001-zeros.patch": PATCH,
        "0001-zeros.yaml": RECORD,
    } | files
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return load_series(root / "patches", "demo")


def outcome(root: Path, source: str, version: str = "1.5") -> tuple[str, str]:
    (patch,) = series(root)
    tree = root / "tree/demo"
    tree.mkdir(parents=True, exist_ok=True)
    (tree / "a.py").write_text(source, encoding="utf-8")
    before = (tree / "a.py").read_bytes()
    verdict = judge(patch, Version(version), open_tree(root / "tree"))
    assert (tree / "a.py").read_bytes() == before
    return verdict.outcome, verdict.probe.answer


@pytest.mark.parametrize(
    ("source", "version", "expected"),
    [
        (SOURCE, "1.5", ("applies", "needed")),
        (SOURCE + "# end\n", "1.5", ("applies", "needed")),
        ("import os\n\n" + SOURCE, "1.5", ("conflict", "needed")),
        (SOURCE.replace("empty", "zeros"), "1.5", ("already-upstream", "present")),
        (SOURCE.replace("empty(3)", "zeros(4, 5)"), "1.5", ("already-upstream", "present")),
        (SOURCE.replace("return x", "return x + 0"), "1.5", ("conflict", "needed")),
        (SOURCE.replace("\n", "\r\n"), "1.5", ("conflict", "needed")),
        ("def g():\n    pass\n", "1.5", ("superseded", "superseded")),
        (SOURCE.replace("empty(3)", "ones(3)"), "1.5", ("unknown-shape", "unknown-shape")),
        (SOURCE + "def g():\n    pass\n", "1.5", ("unknown-shape", "unknown-shape")),
        ("def f(:\n", "1.5", ("unknown-shape", "unknown-shape")),
        (SOURCE, "2.0", ("not-applicable", "needed")),
        (SOURCE.replace("empty", "zeros"), "2.0", ("not-applicable", "present")),
        ("x = 1\n", "2.0", ("not-applicable", "absent")),
        (SOURCE, "1.5+gb10.abc", ("applies", "needed")),
    ],
)
def test_one_outcome_per_patch(tmp_path: Path, source: str, version: str, expected: tuple[str, str]) -> None:
    assert outcome(tmp_path, source, version) == expected


def test_a_defect_outside_every_range_is_told(tmp_path: Path) -> None:
    (patch,) = series(tmp_path)
    below = Changed(open_tree(tmp_path), {"demo/a.py": SOURCE.encode()})
    assert judge(patch, Version("2.1"), below).overdue
    assert not judge(patch, Version("1.1"), below).overdue


def test_a_series_is_judged_one_on_top_of_the_other(tmp_path: Path) -> None:
    second = PATCH.replace("empty", "zeros").replace("+    x = zeros(3)", "+    x = zeros(9)")
    record = RECORD.replace("empty(_)", "zeros(3)").replace("zeros(...)", "zeros(9)")
    patches = series(
        tmp_path,
        **{
            "series": "0001-zeros.patch # why\n\n0002-nine.patch\n",
            "0002-nine.patch": second,
            "0002-nine.yaml": record,
        },
    )
    tree = Changed(open_tree(tmp_path), {"demo/a.py": SOURCE.encode()})
    verdicts = judge_series(patches, Version("1.0"), tree)
    assert [verdict.outcome for verdict in verdicts] == ["applies", "applies"]
    assert verdicts[1].changes["demo/a.py"] == SOURCE.replace("empty(3)", "zeros(9)").encode()


def test_variants_may_not_overlap_and_the_right_one_is_taken(tmp_path: Path) -> None:
    names = {"series": "0001-zeros.patch\n0001-zeros@2.patch\n"}
    with pytest.raises(PatchError, match=r"two variants are for demo 1\.5"):
        series(tmp_path, **names, **{"0001-zeros@2.patch": PATCH.replace(">=1.0,<2.0", ">=1.5,<3.0")})
    patches = series(tmp_path, **names, **{"0001-zeros@2.patch": PATCH.replace(">=1.0,<2.0", ">=2.0,<3.0")})
    tree = Changed(open_tree(tmp_path), {"demo/a.py": SOURCE.encode()})
    (verdict,) = judge_series(patches, Version("2.5"), tree)
    assert (verdict.patch.name, verdict.outcome) == ("0001-zeros@2.patch", "applies")


def test_a_folder_adds_files_and_refuses_those_that_are_there(tmp_path: Path) -> None:
    (patch,) = series(
        tmp_path,
        **{
            "series": "0002-kernel/\n",
            "0002-kernel/wiring.patch": PATCH,
            "0002-kernel/probe.yaml": RECORD,
            "0002-kernel/files/demo/k.cu": "k\n",
        },
    )
    tree = Changed(open_tree(tmp_path / "patches"), {"demo/a.py": SOURCE.encode()})
    verdict = judge(patch, Version("1.0"), tree)
    assert (verdict.outcome, verdict.changes["demo/k.cu"]) == ("applies", b"k\n")
    again = judge(patch, Version("1.0"), Changed(tree, {"demo/k.cu": b"other"}))
    assert (again.outcome, "already there" in again.why) == ("conflict", True)
    assert judge(patch, Version("1.0"), Changed(tree, verdict.changes)).outcome == "already-upstream"


def with_kernels(root: Path, adds: str) -> Patch:
    for name in ("a.cu", "b.h", "ops.cpp"):
        (root / "kernels/demo").mkdir(parents=True, exist_ok=True)
        (root / "kernels/demo" / name).write_text(f"{name}\n", encoding="utf-8")
    record = RECORD.replace("probe:\n", f"adds: {adds}\nprobe:\n")
    (patch,) = series(
        root,
        **{
            "series": "0002-kernel/\n",
            "0002-kernel/wiring.patch": PATCH,
            "0002-kernel/probe.yaml": record,
            "0002-kernel/files/demo/k.cu": "k\n",
        },
    )
    return patch


def test_a_record_lays_our_kernels_into_the_tree_and_they_are_part_of_the_patch(tmp_path: Path) -> None:
    patch = with_kernels(tmp_path, "{demo/gb10: [kernels/demo/*.cu, kernels/demo/*.h]}")
    assert dict(patch.files) == {"demo/gb10/a.cu": b"a.cu\n", "demo/gb10/b.h": b"b.h\n", "demo/k.cu": b"k\n"}
    tree = Changed(open_tree(tmp_path / "patches"), {"demo/a.py": SOURCE.encode()})
    assert judge(patch, Version("1.0"), tree).changes["demo/gb10/a.cu"] == b"a.cu\n"
    (tmp_path / "kernels/demo/b.h").write_text("another\n", encoding="utf-8")
    (again,) = load_series(tmp_path / "patches", "demo")
    assert again.sha256 != patch.sha256


@pytest.mark.parametrize(
    ("adds", "why"),
    [
        ("{demo/gb10: [kernels/demo/*.cuh]}", "there is no kernels/demo/"),
        ("{demo: [kernels/demo/a.cu, kernels/demo/*.cu]}", "demo/a.cu is added twice"),
        ("{demo/gb10: [kernels/../secret/*]}", "not a valid record"),
        ("{demo/gb10: [gb10/image/plan/steps.py]}", "not a valid record"),
        ("{demo/gb10: [/kernels/demo/a.cu]}", "not a valid record"),
        ("{demo/gb10: []}", "not a valid record"),
        ("{../gb10: [kernels/demo/*.cu]}", "not a valid record"),
        ("{/gb10: [kernels/demo/*.cu]}", "not a valid record"),
        ("{demo//gb10: [kernels/demo/*.cu]}", "not a valid record"),
        ("{.: [kernels/demo/*.cu]}", "not a valid record"),
    ],
)
def test_kernels_that_are_not_there_or_would_land_elsewhere_are_refused(tmp_path: Path, adds: str, why: str) -> None:
    with pytest.raises(Gb10Error, match=why):
        with_kernels(tmp_path, adds)


@pytest.mark.parametrize("link", ["demo/c.cu", "more"])
def test_a_link_among_the_kernels_is_refused(tmp_path: Path, link: str) -> None:
    with_kernels(tmp_path, "{demo/gb10: [kernels/demo/*.cu]}")
    (tmp_path / "kernels" / link).symlink_to(tmp_path / ("patches" if "." in link else "kernels/demo"))
    name = "demo" if "." in link else link
    with pytest.raises(PatchError, match="is a link"):
        with_kernels(tmp_path, f"{{demo/gb10: [kernels/{name}/*.cu]}}")


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({"series": "0009-none.patch\n"}, "0009-none.patch is missing"),
        ({"series": "0001-zeros.patch\n0001-zeros.patch\n"}, "twice"),
        ({"series": "zeros.patch -p0\n"}, "not the name"),
        ({"series": "../0001-zeros.patch\n"}, "not the name"),
        ({"0001-zeros.patch": PATCH.replace("Forwarded: no\n", "")}, "header"),
        ({"0001-zeros.patch": PATCH.replace("demo >=1.0", "other >=1.0")}, "does not name releases of demo"),
        ({"0001-zeros.patch": PATCH.replace(">=1.0,<2.0", "newer than 1")}, "does not name releases"),
        ({"0001-zeros.patch": PATCH.replace("2026-11-21\nX", "today\nX")}, "header"),
        ({"0001-zeros.patch": PATCH.replace("Origin: other", "Origin: heaven")}, "header"),
        ({"0001-zeros.yaml": RECORD.replace("answer: needed", "answer: perhaps")}, "not a valid record"),
        ({"0001-zeros.yaml": RECORD.replace("empty(_)", "empty(")}, "not a valid record"),
        ({"0001-zeros.yaml": RECORD.replace('regex: "empty"', 'regex: "("')}, "not a valid record"),
        ({"0001-zeros.yaml": RECORD.replace("**/a.py", "../a.py")}, "not a valid record"),
        ({"0001-zeros.yaml": RECORD.replace("scope: f, ast", "scoep: f, ast")}, "not a valid record"),
    ],
)
def test_a_bad_series_is_refused_before_anything_is_read(tmp_path: Path, files: dict[str, str], why: str) -> None:
    with pytest.raises(Gb10Error, match=why):
        series(tmp_path, **files)


def test_a_link_out_of_the_tree_is_refused(tmp_path: Path) -> None:
    (patch,) = series(tmp_path)
    outside = tmp_path / "outside.py"
    outside.write_text(SOURCE, encoding="utf-8")
    (tmp_path / "tree/demo").mkdir(parents=True)
    (tmp_path / "tree/demo/a.py").symlink_to(outside)
    with pytest.raises(PatchError, match="leads out of the tree"):
        judge(patch, Version("1.0"), open_tree(tmp_path / "tree"))


def test_comments_and_empty_lines_of_a_series() -> None:
    assert read_series("# all\n\n0001-a.patch # why\n0002-b/\n", "s") == ("0001-a.patch", "0002-b/")


def test_a_patch_of_what_is_installed_and_what_is_compiled_is_refused(tmp_path: Path) -> None:
    """A wheel would get a half of it, unless it holds sources, too."""
    both = PATCH + PATCH[PATCH.index("diff --git") :].replace("demo/a.py", "csrc/a.py")
    with pytest.raises(PatchError, match="changes what a wheel holds and what it does not"):
        series(tmp_path, **{"0001-zeros.patch": both})
    whole = pins(packages=["demo"], in_wheel={"csrc": "demo/csrc"})
    (patch,) = series(tmp_path, **{"0001-zeros.patch": both, f"../{PINS}": whole})
    assert not patch.installable
