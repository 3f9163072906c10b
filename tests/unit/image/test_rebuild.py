"""What differs between two images is found, named once, and refused; nothing leads out of a root."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gb10.cli.build.rebuild import document, print_comparison, refuse
from gb10.containers.connection import Engine
from gb10.containers.images import ImageInfo
from gb10.core.host import Host
from gb10.core.reporter import Reporter
from gb10.core.store import Store
from gb10.errors import VerifyError
from gb10.image.build import rebuild
from gb10.image.build.rebuild import LARGEST_COMPARED, Comparison, Different, Pair, described
from gb10.image.plan.catalog import ROOT
from gb10.inside.scan.differ import MOST, differences


def tree(root: Path) -> Path:
    (root / "etc/deep").mkdir(parents=True)
    (root / "etc/file").write_text("content")
    (root / "etc/deep/other").write_text("other")
    (root / "link").symlink_to("/etc/passwd")
    (root / "folder-link").symlink_to("..")
    for path in (*root.rglob("*"), root):
        os.utime(path, (1, 1), follow_symlinks=False)
    return root


def write(path: Path, text: str) -> None:
    """Other content, at the same time."""
    path.write_text(text)
    os.utime(path, (1, 1))


def relink(path: Path, target: str) -> None:
    path.unlink()
    path.symlink_to(target)
    os.utime(path, (1, 1), follow_symlinks=False)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda root: None, {}),
        (lambda root: write(root / "etc/file", "CONTENT"), {"etc/file": ["content"]}),
        (lambda root: write(root / "etc/file", "longer content"), {"etc/file": ["content"]}),
        (lambda root: (root / "etc/file").chmod(0o600), {"etc/file": ["mode"]}),
        (lambda root: os.utime(root / "etc/deep/other", (2, 2)), {"etc/deep/other": ["time"]}),
        (lambda root: os.utime(root / "etc/deep/other", ns=(1, 10**9 + 5)), {}),  # a layer has whole seconds
        (lambda root: relink(root / "link", "/etc/shadow"), {"link": ["content"]}),
        (lambda root: (root / "new").mkdir(), {"new": ["only after"]}),
        (
            lambda root: (root / "etc/deep").rename(root / "moved"),
            {"etc/deep": ["only before"], "moved": ["only after"]},
        ),
    ],
)
def test_each_difference_is_named(
    tmp_path: Path, change: Callable[[Path], object], found: dict[str, list[str]]
) -> None:
    before, after = tree(tmp_path / "before"), tree(tmp_path / "after")
    change(after)
    for root in (before, after):
        for folder in (root, root / "etc"):
            os.utime(folder, (1, 1))
    document = differences(before, after)
    files: list[dict[str, Any]] = document["files"]  # type: ignore[assignment]
    assert {one["path"]: one["differs"] for one in files} == found
    assert document["count"] == len(found)


def test_a_kind_and_an_attribute_differ(tmp_path: Path) -> None:
    before, after = tree(tmp_path / "before"), tree(tmp_path / "after")
    relink(after / "etc/file", "deep")
    os.setxattr(after / "etc/deep/other", "user.gb10", b"x")
    os.utime(after / "etc", (1, 1))
    files: list[dict[str, Any]] = differences(before, after)["files"]  # type: ignore[assignment]
    assert {one["path"]: one["differs"] for one in files} == {"etc/deep/other": ["attributes"], "etc/file": ["kind"]}


def test_the_first_of_many_are_listed_and_all_are_counted_by_python_alone(tmp_path: Path) -> None:
    for name in ("before", "after"):
        (tmp_path / name).mkdir()
    for number in range(MOST + 5):
        (tmp_path / f"after/{number:05}").touch()
    argv = [sys.executable, "-IS", str(ROOT / "gb10/inside/scan/differ.py"), "before", "after"]
    found = json.loads(subprocess.run(argv, check=True, capture_output=True, cwd=tmp_path).stdout)
    assert (len(found["files"]), found["count"], found["files"][0]["path"]) == (MOST, MOST + 5, "00000")


SAME = Pair(name="base", before="sha256:1", after="sha256:1")
OTHER = Pair(name="layer-deps", before="sha256:2", after="sha256:3")


def test_a_reproduced_image_prints_its_digest(capsys: pytest.CaptureFixture[str]) -> None:
    found = Comparison(digest="sha256:d", layers=(SAME,))
    print_comparison(Reporter({}, verbosity=0), "gb10/x", found, as_json=False)
    refuse("gb10/x", found)
    printed = capsys.readouterr()
    assert printed.out == "sha256:d\n"
    assert "gb10/x is reproduced: 1 of 1 layers have the same bytes" in printed.err


def test_without_an_image_there_is_nothing_to_refuse(capsys: pytest.CaptureFixture[str]) -> None:
    found = Comparison(digest="sha256:d", layers=(Pair(name="base", before=None, after="sha256:1"),), compared=False)
    print_comparison(Reporter({}, verbosity=0), "plan.json", found, as_json=False)
    refuse("plan.json", found)
    assert not document("plan.json", found)["same"]
    assert "there is no image to compare with" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (
            Comparison(
                digest="sha256:d",
                layers=(SAME, OTHER),
                files=(Different(path="usr/a.py", differs=("content", "time")),) * 25,
                count=40,
                report="--- before\n+++ after\n+\x1b]0;a terminal obeys this\x07",
            ),
            [
                "gb10/x is not reproduced: 1 of 2 layers differ",
                "layer-deps: sha256:2, now sha256:3",
                "/usr/a.py: content, time",
                "and 20 more files",
                "+++ after",
                r"\x1b]0;a terminal obeys this\x07",
            ],
        ),
        (
            Comparison(digest="sha256:d", layers=(SAME,), settings=("config Env",)),
            ["gb10/x is not reproduced: its settings differ", "setting: config Env"],
        ),
        (
            Comparison(digest="sha256:d", layers=(SAME, Pair(name="layer 2", before=None, after="sha256:3"))),
            ["layer 2: no such layer, now sha256:3", "no file differs: the order or the form of an archive does"],
        ),
    ],
)
def test_a_difference_is_refused_with_the_first_files(found: Comparison, words: list[str]) -> None:
    with pytest.raises(VerifyError) as caught:
        refuse("gb10/x", found)
    assert caught.value.code == 9
    assert [word for word in words if word not in str(caught.value)] == []


@pytest.mark.parametrize(
    ("code", "text", "report"),
    [
        (1, "a\nb\n", "a\nb"),
        (0, "same\n", "same"),
        (1, None, ""),
        (2, "half\n", ""),
        (1, "x\n" * 99, "\n".join("x" * 60)),
    ],
)
def test_diffoscope_is_shown_the_first_small_files_that_differ(  # noqa: PLR0917 - a row
    code: int,
    text: str | None,
    report: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    program = tmp_path / "bin/diffoscope"
    program.parent.mkdir()
    said = "" if text is None else f'cat {tmp_path}/text >"$5"; '
    program.write_text(f"#!/bin/sh\nfind before after -type f | sort >{tmp_path}/seen\n{said}exit {code}\n", "utf-8")
    program.chmod(0o755)
    (tmp_path / "text").write_text(text or "", encoding="utf-8")
    asked: list[list[str]] = []

    def read_folders(_: object, __: object, image: str, wanted: list[str]) -> tuple[dict[str, bytes], None]:
        asked.append(wanted)
        return {place: image.encode() for place in wanted}, None

    monkeypatch.setattr(rebuild, "read_folders", read_folders)
    env = {"PATH": f"{program.parent}:{os.environ['PATH']}"}
    host = cast("Host", SimpleNamespace(env=env, store=Store(tmp_path / "store"), reporter=Reporter({})))
    images = cast("tuple[ImageInfo, ImageInfo]", ("one", "two"))
    files = [
        Different(path="no/content", differs=("mode",), size=5),
        Different(path="empty", differs=("content",), size=0),
        Different(path="large", differs=("content",), size=LARGEST_COMPARED + 1),
        Different(path="at/limit", differs=("mode", "content"), size=LARGEST_COMPARED),
        *(Different(path=f"f{number}", differs=("content",), size=1) for number in range(5)),
    ]
    engine = cast("Engine", None)
    assert described(host, engine, images, files) == report
    assert asked == [["/at/limit", "/f0", "/f1", "/f2"]] * 2
    seen = (tmp_path / "seen").read_text(encoding="utf-8").split()
    assert seen == [f"{side}/{name}" for side in ("after", "before") for name in ("at/limit", "f0", "f1", "f2")]
    assert ("diffoscope failed" in capsys.readouterr().err) is (code == 2)
    asked.clear()
    assert described(host, engine, images, files[:3]) == ""
    program.unlink()
    assert (described(host, engine, images, files), asked) == ("", [])
