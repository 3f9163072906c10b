"""A mod's files: which names and sizes are accepted, what their digest knows, and how they are written."""

import os
import stat
from pathlib import Path

import pytest

from gb10.core.folder_files import (
    DEEPEST,
    FOLDER,
    LONGEST_NAME,
    LONGEST_PART,
    MOST,
    ModFile,
    charge,
    check_name,
    files_digest,
    kind_of,
    read_file,
    write_files,
)
from gb10.errors import UsageError

MOD = Path("mod.zip")
LONG = "/".join(["x" * 127] * 8)


@pytest.mark.parametrize(
    "name",
    ["run.sh", "a/b:c", "é/ü", "..a", "x" * LONGEST_PART, "/".join("x" * DEEPEST), LONG + "y"],
)
def test_a_name_that_an_image_can_hold_is_accepted(name: str) -> None:
    check_name(name, MOD)


@pytest.mark.parametrize("name", ["", "/a", "a\\b", "..", "a/../b", "c:/a"])
def test_a_name_that_leads_out_of_the_mod_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=r"mod\.zip would write outside of its folder"):
        check_name(name, MOD)


@pytest.mark.parametrize(
    "name",
    [
        "a\nb",
        "\udce9",
        "x" * (LONGEST_PART + 1),
        "é" * (LONGEST_PART // 2 + 1),  # in bytes, not in characters
        "/".join("x" * (DEEPEST + 1)),
        LONG + "yy",
    ],
)
def test_a_name_that_no_image_can_hold_is_refused(name: str) -> None:
    assert len(LONG + "y") == LONGEST_NAME
    with pytest.raises(UsageError, match=r"mod\.zip contains an invalid name"):
        check_name(name, MOD)


def test_files_are_charged_to_the_room_that_a_mod_has() -> None:
    assert charge(10, 10, 0, MOD) == 0
    assert charge(10, 3, MOST - 1, MOD) == 7
    for size, count in ((11, 0), (0, MOST)):
        with pytest.raises(UsageError, match=r"mod\.zip is too large for a mod"):
            charge(10, size, count, MOD)


def test_one_byte_over_the_limit_is_read(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"123456")
    assert read_file(tmp_path / "f", 4) == b"12345"
    assert read_file(tmp_path / "f", 9) == b"123456"


@pytest.mark.parametrize(
    ("mode", "kind"),
    [
        (stat.S_IFLNK | 0o777, "link"),
        (stat.S_IFREG | 0o644, "file"),
        (stat.S_IFREG | 0o100, "executable"),
        (stat.S_IFREG | 0o645, "executable"),
    ],
)
def test_the_kind_of_a_file_is_in_its_mode(mode: int, kind: str) -> None:
    assert kind_of(mode) == kind


def test_files_are_written_with_modes_that_do_not_depend_on_the_umask(tmp_path: Path) -> None:
    files = {
        "d": FOLDER,
        "d/f": ModFile("file", b"text"),
        "run.sh": ModFile("executable", b"exit"),
        "l": ModFile("link", b"d/f"),
    }
    before = os.umask(0o077)
    try:
        folder = write_files(files, tmp_path / "a/b")
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.lstat().st_mode) for path in (folder, *folder.rglob("*"))}
    assert modes == {"b": 0o755, "d": 0o755, "f": 0o644, "run.sh": 0o755, "l": 0o777}
    assert (folder / "l").readlink() == Path("d/f")
    assert (folder / "l").read_bytes() == b"text"


def test_the_digest_knows_kinds_names_and_contents_and_no_order() -> None:
    one, two = ModFile("file", b"1"), ModFile("file", b"2")
    digests = [
        files_digest(files)
        for files in (
            {"a": one, "b": two},
            {"a": two, "b": one},
            {"a": one},
            {"a": ModFile("executable", b"1")},
            {"c": one},
            {},
        )
    ]
    assert len(set(digests)) == len(digests)
    assert files_digest({"b": two, "a": one}) == digests[0]
