"""Diffs of others, hunk by hunk, on a release that lies here as a pinned archive."""

import datetime
import io
import json
import os
import tarfile
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from packaging.version import Version

from gb10.cli.patch.patches import print_fates
from gb10.core.reporter import Reporter
from gb10.core.store import Store, file_sha256
from gb10.errors import Gb10Error, UsageError
from gb10.image.patches.foreign import find_foreign
from gb10.image.patches.hunks import MOST, DiffFate, Growing, adopt_diffs, series_files, series_troubles, write_series
from gb10.image.patches.release_files import Library
from gb10.image.patches.series import parse_header
from gb10.image.patches.write import file_diff

LINES = [f"line {number}\n" for number in range(1, 41)]
OLD = "".join(LINES)
RELEASE = {"vllm/a.py": OLD, "vllm/same.py": "x = 1\n", "vllm/sub/moved.py": "y\n", "docs/a.md": "text\n"}


@pytest.fixture
def library(tmp_path: Path) -> Library:
    """A library with one release of vLLM: its archive is in the store already."""
    archive = sdist(tmp_path, "vllm-0.33.0", RELEASE)
    sha256 = file_sha256(archive)
    pin = {"filename": archive.name, "sha256": sha256, "size": archive.stat().st_size}
    source = {"projects": ["vllm"], "layout": {"packages": ["vllm"]}, "releases": {"0.33.0": pin}}
    other = {**source, "projects": ["sglang"], "layout": {"packages": ["sglang"]}}
    root = tmp_path / "patches"
    root.mkdir()
    (root / "releases.lock.json").write_text(json.dumps({"sources": {"vllm": source, "sglang": other}}))
    store = Store(tmp_path / "store")
    place = store.entry("downloads", sha256)
    place.mkdir(parents=True)
    archive.rename(place / archive.name)
    return Library(root=root, store=store, env={}, reporter=Reporter({}, verbosity=-1))


def sdist(folder: Path, name: str, files: Mapping[str, str]) -> Path:
    """A source archive, with its top folder."""
    archive = folder / f"{name}.tar.gz"
    with tarfile.open(archive, "w:gz") as out:
        for path, text in files.items():
            info = tarfile.TarInfo(f"{name}/{path}")
            info.size = len(text)
            out.addfile(info, io.BytesIO(text.encode()))
    return archive


@pytest.fixture
def indexed(library: Library, tmp_path: Path) -> Library:
    """The library with a package index: `lib`, which keeps its package below `src`, and `only`, which is a wheel."""
    own = {"src/lib/__init__.py": "", "src/lib/a.py": OLD, "src/lib/sub/__init__.py": "", "csrc/k.cu": "old\n"}
    files = [sdist(tmp_path, "lib-1.5", {**own, "tests/__init__.py": "", "setup.py": "s\n"})]
    files += [sdist(tmp_path, "odd-1.0", {"a/../b/__init__.py": ""}), tmp_path / "only-2.0-py3-none-any.whl"]
    with zipfile.ZipFile(files[-1], "w") as wheel:
        for name, text in {"only/a.py": OLD, "single.py": "x\n", "only-2.0.dist-info/WHEEL": ""}.items():
            wheel.writestr(name, text)
    for file in files:
        page = tmp_path / "index" / file.name.partition("-")[0] / "index.html"
        page.parent.mkdir(parents=True)
        page.write_text(f'<a href="{file.as_uri()}#sha256={file_sha256(file)}">{file.name}</a>')
    env = {"PIP_INDEX_URL": (tmp_path / "index").as_uri(), "PIP_CONFIG_FILE": os.devnull}
    return replace(library, env=env)


def judged(library: Library, folder: Path, diffs: Mapping[str, bytes]) -> tuple[DiffFate, ...]:
    folder.mkdir(exist_ok=True)
    for name, text in diffs.items():
        (folder / name).write_bytes(text)
    return adopt_diffs(library, folder, {"vllm": Version("0.33.0")})


def changed(*edits: tuple[int, str], start: str = OLD) -> str:
    lines = start.splitlines(keepends=True)
    for number, text in edits:
        lines[number - 1] = text
    return "".join(lines)


def diff(before: str | None, after: str | None, path: str = "vllm/a.py") -> bytes:
    return file_diff(path, None if before is None else before.encode(), None if after is None else after.encode())


def outcomes(fate: DiffFate) -> list[str]:
    return [one.outcome for one in fate.hunks]


def test_each_hunk_has_a_fate_of_its_own(library: Library, tmp_path: Path) -> None:
    theirs = changed((5, "line 5 of another release\n"))
    odd = changed(*((number, f"odd {number}\n") for number in range(26, 38)), start=theirs)
    new = changed((1, "mine\n"), (7, "seven\n"), (31, "thirty one\n"), start=odd)
    (fate,) = judged(library, tmp_path / "d", {"1.diff": diff(odd, new)})
    assert outcomes(fate) == ["conflict", "gone"]
    assert "line 5 of another release" in fate.hunks[0].why or "the context changed" in fate.hunks[0].why
    assert fate.hunks[0].clean
    assert b"+seven" in fate.hunks[0].three_way
    assert not fate.fits
    assert len(series_troubles((fate,))) == 2


def test_each_hunk_is_a_line_for_people(library: Library, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    far = changed((6, "six of theirs\n"))
    made = diff(far, changed((7, "seven\n"), (30, "thirty\n"), start=far))
    print_fates(judged(library, tmp_path / "d", {"1.diff": made, "2.diff": b"<html>"}))
    first, conflict, applies, broken = capsys.readouterr().out.splitlines()
    assert first == "1.diff  vllm 0.33.0"
    assert conflict.startswith("  conflict          vllm/a.py:4  ")
    assert conflict.endswith("; a three-way merge is clean")
    assert applies == "  applies           vllm/a.py:27"
    assert broken.startswith("2.diff")
    assert "a web page" in broken


def test_a_conflict_shows_both_sides(library: Library, tmp_path: Path) -> None:
    theirs = changed((10, "ten of theirs\n"))
    (fate,) = judged(library, tmp_path / "d", {"1.diff": diff(theirs, changed((10, "ten of mine\n")))})
    (hunk,) = fate.hunks
    assert (hunk.outcome, hunk.clean) == ("conflict", False)
    around = [f"line {number}" for number in range(7, 14)]
    assert hunk.three_way.decode().splitlines() == [
        "<<<<<<< the release, vllm/a.py:7", *around, "=======", *around[:3], "ten of mine", *around[4:],
        ">>>>>>> the diff",
    ]  # fmt: skip


def test_both_sides_of_a_files_end_are_lines(library: Library, tmp_path: Path) -> None:
    before, after = changed((40, "theirs")), changed((40, "mine"))
    (fate,) = judged(library, tmp_path / "d", {"1.diff": diff(before, after)})
    text = fate.hunks[0].three_way.decode()
    assert text.endswith("line 39\n=======\nline 37\nline 38\nline 39\nmine\n>>>>>>> the diff\n")


def test_a_line_that_is_still_there_is_not_gone(library: Library, tmp_path: Path) -> None:
    around = [(number, f"another {number}\n") for number in (7, 8, 9, 11, 12, 13)]
    before = changed(*around)
    (fate,) = judged(library, tmp_path / "d", {"1.diff": diff(before, changed((10, "mine\n"), start=before))})
    assert outcomes(fate) == ["conflict"]
    (fate,) = judged(
        library,
        tmp_path / "e",
        {"1.diff": diff(changed((10, "theirs\n"), start=before), changed((10, "mine\n"), start=before))},
    )
    assert outcomes(fate) == ["gone"]


def test_what_the_release_has_is_not_needed(library: Library, tmp_path: Path) -> None:
    before = changed((3, "three of before\n"))
    (fate,) = judged(library, tmp_path / "d", {"1.diff": diff(before, changed((30, "mine\n")))})
    assert outcomes(fate) == ["already-upstream", "applies"]
    assert fate.fits
    assert b"three of before" not in fate.text
    assert b"+mine" in fate.text


@pytest.mark.parametrize(
    "prefix", ["", "usr/local/lib/python3.12/dist-packages/", "opt/venv/lib/python3.12/site-packages/"]
)
def test_any_prefix_is_read(library: Library, tmp_path: Path, prefix: str) -> None:
    text = diff(OLD, changed((20, "mine\n"))).replace(b"vllm/a.py", f"{prefix}vllm/a.py".encode())
    (fate,) = judged(library, tmp_path / "d", {"1.diff": text})
    assert outcomes(fate) == ["applies"]
    assert fate.text == diff(OLD, changed((20, "mine\n")))


def test_whole_files(library: Library, tmp_path: Path) -> None:
    fates = judged(
        library,
        tmp_path / "d",
        {
            "1.diff": diff(None, "x = 1\n", "vllm/same.py"),
            "2.diff": diff(None, "x = 2\n", "vllm/same.py"),
            "3.diff": diff(None, "x = 3\n", "vllm/new.py"),
            "4.diff": diff("y\n", "z\n", "vllm/moved.py"),
            "5.diff": diff("y\n", None, "vllm/none.py"),
            "6.diff": diff(OLD, changed((2, "two\n"))) + diff("other\n", "more\n", "docs/a.md"),
        },
    )
    assert [outcomes(fate) for fate in fates] == [
        ["already-upstream"], ["conflict"], ["applies"], ["gone"], ["already-upstream"], ["applies", "left-out"],
    ]  # fmt: skip
    assert "of that name: vllm/sub/moved.py" in fates[3].hunks[0].why


def test_a_series_meets_what_those_before_it_left(library: Library, tmp_path: Path) -> None:
    first = changed((10, "ten\n"))
    second = changed((10, "ten again\n"))
    folder = tmp_path / "d"
    fates = judged(library, folder, {"b.patch": diff(first, second), "a.patch": diff(OLD, first)})
    assert all(fate.fits for fate in fates)
    (folder / "series").write_text("b.patch -p1\na.patch\nlost.patch\n")
    assert [(fate.name, fate.fits) for fate in judged(library, folder, {})] == [
        ("b.patch", False), ("a.patch", True), ("lost.patch", False),
    ]  # fmt: skip
    (folder / "series").write_text("../x\n")
    with pytest.raises(UsageError, match="leads out"):
        judged(library, folder, {})


def test_the_series_is_written_in_our_form(library: Library, tmp_path: Path) -> None:
    mail = b"From: a\nSubject: [PATCH 2/3] faster,\n and smaller\n\n" + diff(OLD, changed((2, "two\n")))
    fates = judged(
        library,
        tmp_path / "d",
        {"0007-Fast er.patch": mail, "8.diff": diff(changed((9, "x\n")), changed((9, "z\n"))), "9.diff": b"none"},
    )
    files = series_files(fates, datetime.date(2026, 11, 27))
    assert sorted(files) == ["vllm/0001-fast-er.patch", "vllm/conflicts/0002-8.txt", "vllm/series"]
    assert files["vllm/series"] == b"0001-fast-er.patch\n# 8.diff: does not apply\n"
    header = parse_header(files["vllm/0001-fast-er.patch"].decode(), "vllm", "0001-fast-er.patch")
    assert header.subject == "faster, and smaller"
    assert header.get("X-Applies-To") == "vllm ==0.33.0"
    write_series(files, tmp_path / "mine")
    assert [path.name for path in find_foreign(tmp_path / "mine/vllm")] == ["0001-fast-er.patch"]
    with pytest.raises(UsageError, match="is there already"):
        write_series(files, tmp_path / "mine")


def test_what_is_no_diff_or_for_another_source_is_a_problem(library: Library, tmp_path: Path) -> None:
    folder = tmp_path / "d"
    folder.mkdir()
    (folder / "1.patch").symlink_to("/etc/passwd")
    fates = judged(
        library,
        folder,
        {"2.patch": b"<html>", "3.patch": diff("a\n", "b\n", "sglang/a.py"), "4.patch": diff("a\n", "b\n", "../a.py")},
    )
    assert not any(fate.fits or fate.text for fate in fates)
    assert "not followed" in fates[0].problem
    assert "a web page" in fates[1].problem
    assert "not vllm" in fates[2].problem
    assert "not one below" in fates[3].problem
    both = {"vllm": Version("0.33.0"), "sglang": Version("0.33.0")}
    (fate,) = adopt_diffs(library, folder / "3.patch", both)
    assert outcomes(fate) == ["gone"]


MOVED = diff("y\n", "z\n", "moved.py").partition(b"\n@@")[2]


@pytest.mark.parametrize(
    "text",
    [
        diff("y\n", "z\n", "moved.py"),
        diff("y\n", "z\n", "sub/moved.py"),
        b"--- moved.py.orig\t2026-03-03 00:00:00\n+++ moved.py\t2026-03-03 00:00:00\n@@" + MOVED,
        b"--- ./moved.py\n+++ ./moved.py\n@@" + MOVED,
        b"--- theirs/moved.py\n+++ ours/moved.py\n@@" + MOVED,
        diff(None, "n\n", "new.py") + diff("y\n", "z\n", "moved.py"),
    ],
)
def test_a_path_without_the_folder_of_its_package_is_looked_for(
    library: Library, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: bytes
) -> None:
    """New files lie beside those that are changed."""
    (fate,) = judged(library, tmp_path / "d", {"a.diff": text})
    new = ["vllm/sub/new.py"] if b"new.py" in text else []
    assert (fate.fits, [one.path for one in fate.hunks]) == (True, [*new, "vllm/sub/moved.py"])
    assert b"+++ b/vllm/sub/moved.py\n" in fate.text
    print_fates([fate])
    assert "moved.py is vllm/sub/moved.py: no other file" in capsys.readouterr().out


def test_a_path_that_may_be_several_files_is_refused_and_they_are_named(indexed: Library, tmp_path: Path) -> None:
    folder = tmp_path / "d"
    folder.mkdir()
    empty = b"--- a/__init__.py\n+++ b/__init__.py\n@@ -0,0 +1 @@\n+x = 1\n"
    (folder / "1.diff").write_bytes(empty)
    (folder / "2.diff").write_bytes(empty + diff(OLD, changed((5, "five\n")), "a.py"))
    (folder / "3.diff").write_bytes(diff("a\n", "b\n", "nowhere.py"))
    (folder / "4.diff").write_bytes(diff("s\n", "t\n", "setup.py"))
    several, both, gone, top = adopt_diffs(indexed, folder, {"lib": Version("1.5")})
    assert "may be 2 files: src/lib/__init__.py, src/lib/sub/__init__.py" in several.problem
    assert "put the folder" in several.problem
    assert [one.path for one in both.hunks] == ["src/lib/__init__.py", "src/lib/a.py"], "one folder has both"
    assert not gone.located
    assert not gone.fits
    assert (top.fits, top.located) == (True, {})


INSTALLED = "usr/local/lib/python3.12/dist-packages"


def test_any_package_of_the_index_is_a_release_too(indexed: Library, tmp_path: Path) -> None:
    """However the diff names its file: as installed, as in the repository, or what only the archive has."""
    folder = tmp_path / "d"
    folder.mkdir()
    new = changed((5, "five\n"))
    one, two, three = f"{INSTALLED}/lib/a.py", "src/lib/a.py", f"{INSTALLED}/only/a.py"
    texts = diff(OLD, new, one), diff(new, changed((30, "x\n"), start=new), two), diff("old\n", "new\n", "csrc/k.cu")
    for number, text in enumerate((*texts, diff("s\n", "t\n", "setup.py"))):
        (folder / f"{number}.diff").write_bytes(text)
    fates = adopt_diffs(indexed, folder, {"Lib": Version("1.5")})
    assert [(fate.source, one.path, one.outcome) for fate in fates for one in fate.hunks] == [
        ("lib", "src/lib/a.py", "applies"),
        ("lib", "src/lib/a.py", "applies"),
        ("lib", "csrc/k.cu", "applies"),
        ("lib", "setup.py", "applies"),
    ]
    assert series_files(fates, datetime.date(2026, 1, 2))["lib/series"].count(b"\n") == 4

    (folder / "5.diff").write_bytes(diff(OLD, new, three))
    both = adopt_diffs(indexed, folder / "5.diff", {"lib": Version("1.5"), "only": Version("2.0")})
    assert [(fate.source, fate.hunks[0].path, fate.fits) for fate in both] == [("only", "only/a.py", True)]
    (fate,) = adopt_diffs(indexed, folder / "2.diff", {"only": Version("2.0")})
    assert "the wheel of the release does not have the file" in fate.hunks[0].why


@pytest.mark.parametrize(
    ("refs", "words"),
    [
        ({"nothing": "1.0"}, "the package index has no nothing 1.0"),
        ({"lib": "1.6"}, "the package index has no lib 1.6"),
        ({"../lib": "1.5"}, "is no name of a package"),
        ({"lib": "1.5", "LIB": "1.5"}, "two releases of lib"),
        ({"odd": "1.0"}, "not a plain path below the root"),
    ],
)
def test_a_release_that_cannot_be_read_is_one_error(
    indexed: Library, tmp_path: Path, refs: Mapping[str, str], words: str
) -> None:
    (tmp_path / "a.diff").write_bytes(diff("a\n", "b\n", "lib/a.py"))
    with pytest.raises(Gb10Error) as caught:
        adopt_diffs(indexed, tmp_path / "a.diff", {name: Version(text) for name, text in refs.items()})
    assert words in f"{caught.value} {caught.value.where}"


def test_a_thousand_diffs_are_laid_one_above_the_other(library: Library, tmp_path: Path) -> None:
    diffs = {f"{number:04}.diff": diff(None, "a\n", f"vllm/n{number}.py") for number in range(MOST - 1)}
    diffs["last.diff"] = diff(OLD, changed((3, "three\n")))
    fates = judged(library, tmp_path / "d", diffs)
    assert len(fates) == MOST
    assert all(fate.fits for fate in fates)


def test_files_of_a_name_are_listed_once_and_follow_the_changes() -> None:
    class Counted:
        installed = False
        listed = 0

        def paths(self) -> tuple[str, ...]:
            self.listed += 1
            return ("a/x.py", "b/x.py", "c/y.py")

        def read(self, path: str) -> bytes | None:
            return b"" if path in self.paths() else None

    below = Counted()
    tree = Growing(below)
    tree.lay({"d/x.py": b"", "a/x.py": None})
    assert tree.named("x.py") == ["b/x.py", "d/x.py"]
    tree.lay({"a/x.py": b"", "b/x.py": None, "b/z.py": b"", "d/x.py": b"1", "e/x.py": None})
    assert (tree.named("x.py"), tree.named("z.py"), tree.named("q.py")) == (["a/x.py", "d/x.py"], ["b/z.py"], [])
    assert below.listed == 1
    assert tree.paths() == ("a/x.py", "b/z.py", "c/y.py", "d/x.py")


def test_a_series_leads_through_no_link(library: Library, tmp_path: Path) -> None:
    (tmp_path / "out/deep").mkdir(parents=True)
    (tmp_path / "out/x.patch").write_bytes(diff(OLD, changed((3, "three\n"))))
    (tmp_path / "out/deep/x.patch").write_bytes(diff(OLD, changed((3, "three\n"))))
    folder = tmp_path / "d"
    (folder / "own").mkdir(parents=True)
    (folder / "sub").symlink_to(tmp_path / "out")
    (folder / "own/up").symlink_to(tmp_path / "out")
    for name in ("sub/x.patch", "own/up/deep/x.patch"):
        with pytest.raises(UsageError, match="leads through a link"):
            judged(library, folder, {"series": name.encode()})
    for listed in (b"../out/x.patch", str(tmp_path / "out/x.patch").encode(), b"a\0b", b"a/" * 600):
        with pytest.raises(UsageError, match="leads out of its folder"):
            judged(library, folder, {"series": listed})
    (folder / "own/x.patch").write_bytes(diff(OLD, changed((3, "three\n"))))
    own, below, long = judged(library, folder, {"series": b"own/x.patch\nown/x.patch/y.patch\n" + b"n" * 300 + b"/x"})
    assert own.fits
    assert (below.problem, long.problem) == (
        "it cannot be read: Not a directory",
        "it cannot be read: File name too long",
    )
