"""Diffs on files: the whole result of each one, or the whole reason why it does not fit; and a series of others."""

import datetime
import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from packaging.version import Version

from gb10.core.reporter import Reporter
from gb10.core.store import Store, file_sha256
from gb10.image.patches.apply import ConflictError, apply_diff, apply_patch, places
from gb10.image.patches.diff import FileDiff, parse_diff
from gb10.image.patches.hunks import adopt_diffs, series_files, series_troubles
from gb10.image.patches.release_files import Library
from gb10.image.patches.write import file_diff
from tests.golden.conftest import Golden, section

LINES: Final = [f"line {number}" for number in range(1, 21)]
FILE: Final = "\n".join(LINES) + "\n"
TWICE: Final = FILE + FILE


def changed(text: str, edits: Mapping[int, str | None]) -> str:
    """Lines by their number from 1; None takes one away, a text of several lines adds some."""
    lines = [edits.get(number, line) for number, line in enumerate(text.splitlines(), 1)]
    return "".join(f"{line}\n" for line in lines if line is not None)


def diff(before: str | None, after: str | None, path: str = "a.py") -> bytes:
    return file_diff(path, None if before is None else before.encode(), None if after is None else after.encode())


def shown(content: bytes | None) -> str:
    """A small file as it is, and one like FILE by what differs."""
    if content is None or len(content) < 100:
        return repr(content)
    return diff(FILE, content.decode()).decode().partition("\n@@")[2]


def applied(text: bytes | FileDiff, content: str | None) -> str:
    (one,) = parse_diff(text, "x") if isinstance(text, bytes) else [text]
    try:
        found = apply_diff(one, None if content is None else content.encode())
    except ConflictError as error:
        return f"{error.conflict!r}\n{error}"
    return f"moved by {found.offsets}\n{shown(found.content)}"


def test_each_result_and_each_conflict(golden: Golden) -> None:
    ten = diff(FILE, changed(FILE, {10: "ten"}))
    two = diff(FILE, changed(FILE, {4: "four", 15: "fifteen"}))
    first, last, whole = (
        diff(FILE, changed(FILE, {1: "one"})),
        diff(FILE, changed(FILE, {20: "end"})),
        diff("a\n", "b\n"),
    )
    above = "new 1\nnew 2\n"
    cases: dict[str, tuple[bytes | FileDiff, str | None]] = {
        "fits": (ten, FILE),
        "two hunks": (two, FILE),
        "two lines lower": (two, above + FILE),
        "two lines higher": (ten, changed(FILE, {1: None, 2: None})),
        "the second hunk has moved alone": (two, changed(FILE, {9: "9\n9a\n9b\n9c"})),
        "in two places, one is the header's": (ten, TWICE),
        "in two places, none is the header's": (ten, above + TWICE),
        "in six places": (
            diff("a\nb\nc\nd\ne\nf\ng\nh\n", "a\nb\nc\nd\nE\nf\ng\nh\n"),
            "x\ny\n" + "b\nc\nd\ne\nf\ng\nh\n" * 6,
        ),
        "the first has moved, so the header tells nothing": (two, above + FILE + FILE),
        "a start that is not the start": (first, above + FILE),
        "an end that is not the end": (last, FILE + above),
        "a whole file that is part of one": (whole, "x\na\ny\n"),
        "a whole file that is its start": (whole, "a\ny\n"),
        "a whole file that is its end": (whole, "y\na\n"),
        "applied already": (ten, changed(FILE, {10: "ten"})),
        "half applied": (two, changed(FILE, {4: "four"})),
        "another line there": (ten, changed(FILE, {11: "eleven of others"})),
        "another first line": (ten, changed(FILE, {7: "seven of others"})),
        "another line there, two lines lower": (ten, above + changed(FILE, {11: "eleven of others"})),
        "the file ends before": (ten, changed(FILE, dict.fromkeys(range(9, 21)))),
        "CRLF": (ten, FILE.replace("\n", "\r\n")),
        "an empty file": (ten, ""),
        "another file": (ten, "x\n"),
        "no file": (ten, None),
        "a new file": (diff(None, "a\nb\n"), None),
        "a new file that is there": (diff(None, "a\nb\n"), "c\n"),
        "a file is deleted": (diff("a\nb\n", None), "a\nb\n"),
        "an empty file is deleted that has a line": (FileDiff("a.py", "delete", ()), "x\n"),
        "an empty file is deleted": (FileDiff("a.py", "delete", ()), ""),
        "a file is deleted that has more": (diff("a\nb\n", None), "a\nb\nc\n"),
        "a file is deleted that is gone": (diff("a\nb\n", None), None),
        "no line at the end": (diff("a\nb", "a\nc"), "a\nb"),
        "a line at the end of the file alone": (diff("a\nb", "a\nc"), "a\nb\n"),
        "hunks in the wrong order": (
            FileDiff("a.py", "change", tuple(reversed([hunk for one in parse_diff(two, "x") for hunk in one.hunks]))),
            FILE,
        ),
        "a line is added to an empty file": (diff("", "a\n"), ""),
    }
    found = [section(title, applied(*case)) for title, case in cases.items()]
    golden("render/diffs.txt", "\n\n".join(found) + "\n")


def test_a_patch_of_several_files() -> None:
    text = diff(FILE, changed(FILE, {10: "ten"})) + diff("x\n", "y\n", "b.py") + diff("q\n", None, "c.py")
    files = {"a.py": ("new\n" + FILE).encode(), "b.py": b"x\n", "c.py": b"q\n"}
    found = apply_patch(parse_diff(text, "x"), {"d.py": b"d"}, files.get)
    assert found.files == {
        "a.py": ("new\n" + changed(FILE, {10: "ten"})).encode(), "b.py": b"y\n", "c.py": None, "d.py": b"d",
    }  # fmt: skip
    assert found.offsets == {"a.py": (1,)}
    try:
        apply_patch((), {"b.py": b"d"}, files.get)
    except ConflictError as error:
        assert str(error) == "b.py: the file to add is already there"
    else:
        raise AssertionError


def test_where_lines_stand() -> None:
    lines = [b"a\n", b"b\n", b"a\n", b"b\n", b"ab\n", b"a"]
    assert [places(lines, wanted) for wanted in ([b"a\n"], [b"b\n"], [b"a\n", b"b\n"], [b"a"], [b"c\n"], [])] == [
        [0, 2], [1, 3], [0, 2], [5], [], [0, 1, 2, 3, 4, 5, 6],
    ]  # fmt: skip
    assert places(lines, [b"a\n"], 1) == [2]
    assert places(lines, [], 5) == [5, 6]


RELEASE: Final = {"vllm/a.py": FILE, "vllm/same.py": "x = 1\n", "vllm/sub/moved.py": "y\n", "docs/a.md": "text\n"}


def library(tmp_path: Path) -> Library:
    """A library with one release of vLLM: its archive is in the store already."""
    archive = tmp_path / "vllm-0.33.0.tar.gz"
    with tarfile.open(archive, "w:gz") as out:
        for name, text in RELEASE.items():
            info = tarfile.TarInfo(f"vllm-0.33.0/{name}")
            info.size = len(text)
            out.addfile(info, io.BytesIO(text.encode()))
    sha256 = file_sha256(archive)
    pin = {"filename": archive.name, "sha256": sha256, "size": archive.stat().st_size}
    source = {"projects": ["vllm"], "layout": {"packages": ["vllm"]}, "releases": {"0.33.0": pin}}
    root = tmp_path / "patches"
    root.mkdir()
    (root / "releases.lock.json").write_text(json.dumps({"sources": {"vllm": source}}))
    store = Store(tmp_path / "store")
    place = store.entry("downloads", sha256)
    place.mkdir(parents=True)
    archive.rename(place / archive.name)
    return Library(root=root, store=store, env={}, reporter=Reporter({}, verbosity=-1))


def test_a_series_of_others(golden: Golden, tmp_path: Path) -> None:
    """Every fate of a hunk, what a merge would give, and the series that is written."""
    theirs = changed(FILE, {5: "five of theirs"})
    far = changed(FILE, {number: f"odd {number}" for number in range(9, 19)})
    merged = changed(FILE, {number: f"another line {number}" for number in (7, 8, 9)})
    diffs = {
        "0001-First one.patch": b"Subject: [PATCH 1/2] faster,\n\tand smaller\n\n"
        + diff(FILE, changed(FILE, {2: "two", 18: "eighteen"}), "vllm/a.py"),
        "02.diff": diff("new\nnew\n" + FILE, "new\nnew\n" + changed(FILE, {10: "ten"}), "vllm/a.py"),
        "03.diff": diff(theirs, changed(theirs, {5: "five"}), "vllm/a.py"),
        "04.diff": diff(theirs, changed(theirs, {7: "seven"}), "vllm/a.py"),
        "05.diff": diff(far, changed(far, {13: "thirteen"}), "vllm/a.py"),
        "06.diff": diff(merged, changed(merged, {10: "X"}), "vllm/a.py"),
        "07.diff": diff(None, "x = 1\n", "vllm/same.py"),
        "08.diff": diff(None, "x = 2\n", "vllm/same.py"),
        "09.diff": diff("x = 3\n", None, "vllm/same.py"),
        "10.diff": diff("y\n", "z\n", "vllm/moved.py"),
        "11.diff": diff("y\n", None, "vllm/none.py"),
        "12.diff": diff("x = 1\n", "x = 4\n", "vllm/same.py") + diff("other\n", "more\n", "docs/a.md"),
        "13.diff": diff(changed(FILE, {3: "before"}), FILE, "vllm/a.py"),
        "14.diff": b"<html>",
        "15.diff": diff("a\n", "b\n", "../a.py"),
        "16.diff": diff(None, "new\n", "vllm/new.py"),
        "---.diff": diff("x = 4\n", "x = 5\n", "vllm/same.py"),
    }
    folder = tmp_path / "d"
    folder.mkdir()
    for name, text in diffs.items():
        (folder / name).write_bytes(text)
    fates = adopt_diffs(library(tmp_path), folder, {"vllm": Version("0.33.0")})
    found = []
    for fate in fates:
        head = (
            f"{fate.title!r} of {fate.source} {fate.version}: {'fits' if fate.fits else 'does not fit'} {fate.problem}"
        )
        hunks = [
            f"{one.path}:{one.line}: {one.outcome}, clean: {one.clean}: {one.why}\n{one.three_way.decode()}"
            for one in fate.hunks
        ]
        found.append(section(fate.name, "\n".join([head, *hunks, fate.text.decode()]).rstrip()))
    files = series_files(fates, datetime.date(2026, 11, 7))
    found += [section(name, text.decode()) for name, text in files.items() if not name.endswith(".txt")]
    found.append(section("files", "\n".join(sorted(files))))
    found.append(section("troubles", "\n".join(series_troubles(fates))))
    golden("render/foreign-series.txt", "\n\n".join(found) + "\n")
