"""Hostile mods are refused in one sentence: lying sizes, odd names, unknown compression, deep folders."""

import os
import resource
import struct
import zipfile
from pathlib import Path

import pytest

from gb10.core.folder_files import DEEPEST, MOST, ModFile, files_digest
from gb10.errors import UsageError
from gb10.image.mods.declaration import problems_of
from gb10.image.mods.read import load_mod
from tests.conftest import Deep

SCRIPT = b"#!/usr/bin/env bash\ntrue\n"
CENTRAL = b"PK\x01\x02"


def a_zip(path: Path, *names: str, method: int = zipfile.ZIP_STORED, content: bytes = SCRIPT) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name in names:
            archive.writestr(name, content)
    return path


def patched(path: Path, local: int, central: int, value: bytes) -> Path:
    """The zip with ``value`` in the headers of its last member."""
    raw = bytearray(path.read_bytes())
    for start, at in ((raw.rfind(b"PK\x03\x04"), local), (raw.rfind(CENTRAL), central)):
        raw[start + at : start + at + len(value)] = value
    path.write_bytes(raw)
    return path


def refusal(path: Path) -> str:
    with pytest.raises(UsageError) as caught:
        load_mod(path)
    return str(caught.value)


def test_an_encrypted_zip_is_refused(tmp_path: Path) -> None:
    assert "cannot be unpacked" in refusal(patched(a_zip(tmp_path / "m.zip", "run.sh"), 6, 8, struct.pack("<H", 1)))


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA, 99])
def test_a_compression_that_is_not_used_for_mods_is_refused(tmp_path: Path, method: int) -> None:
    path = patched(a_zip(tmp_path / "m.zip", "run.sh"), 8, 10, struct.pack("<H", method))
    assert "its compression is neither" in refusal(path)


def test_a_size_that_is_not_true_costs_no_memory(tmp_path: Path) -> None:
    path = a_zip(tmp_path / "m.zip", "run.sh", method=zipfile.ZIP_DEFLATED, content=b"\0" * (120 << 20))
    patched(path, 22, 24, struct.pack("<I", 10))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert "cannot be unpacked" in refusal(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60 << 10


@pytest.mark.parametrize(
    "name",
    ["a\nb", "a\x1b[31m", "x" * 256, "a/" * DEEPEST + "b", "/".join(["x" * 200] * 6), "a\u202eb"],
    ids=["newline", "escape", "long", "deep", "long path", "right to left"],
)
def test_a_name_that_no_image_can_hold_is_refused(tmp_path: Path, name: str) -> None:
    error = refusal(a_zip(tmp_path / "m.zip", "run.sh", name))
    assert "an invalid name" in error
    assert error.isascii()


def test_a_folder_is_held_to_the_same_names(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m/a\nb").write_bytes(b"")
    assert "an invalid name" in refusal(tmp_path / "m")


def test_folders_without_an_end_are_refused(deep: Deep) -> None:
    assert "an invalid name" in refusal(deep(1200, "m", b""))


def test_a_fifo_is_refused_and_not_read(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    os.mkfifo(tmp_path / "m/run.sh")
    assert "neither a file, a link nor a folder" in refusal(tmp_path / "m")
    assert "is not a mod" in refusal(tmp_path / "m/run.sh")


def test_a_long_list_of_members_is_refused_before_it_is_parsed(tmp_path: Path) -> None:
    path = a_zip(tmp_path / "m.zip", "run.sh")
    path.write_bytes(CENTRAL * (MOST + 1) + path.read_bytes())
    assert "too large for a mod" in refusal(path)


def test_no_name_can_stand_for_two_files() -> None:
    inner = ModFile("file", b"b")
    only = {"a": ModFile("file", b"a"), "b": inner}
    forged = f"a\nfile {'0' * 64} b"
    assert files_digest(only) != files_digest({forged: inner})
    assert files_digest({"a": inner, "bc": inner}) != files_digest({"ab": inner, "c": inner})


@pytest.mark.parametrize("target", [b"", b"a\0b", b"x" * 2000])
def test_a_link_to_nowhere_is_a_problem(target: bytes) -> None:
    files = {"run.sh": ModFile("file", SCRIPT), "l": ModFile("link", target)}
    assert "names no usable path" in problems_of("m", files)[0]


def test_a_zip_of_one_folder_is_the_mod_in_that_folder(tmp_path: Path) -> None:
    inside = a_zip(tmp_path / "m.zip", "m-main/run.sh", "m-main/sub/data")
    (tmp_path / "flat").mkdir()
    flat = a_zip(tmp_path / "flat/m.zip", "run.sh", "sub/data")
    assert set(load_mod(inside).files) == {"run.sh", "sub", "sub/data"}
    assert load_mod(inside).digest == load_mod(flat).digest


@pytest.mark.parametrize("names", [("a/run.sh", "b/x"), ("a/run.sh", "README"), ("a/b/run.sh",)])
def test_a_zip_that_is_not_one_mod_in_one_folder_is_refused(tmp_path: Path, names: tuple[str, ...]) -> None:
    assert "run.sh is missing" in refusal(a_zip(tmp_path / "m.zip", *names))
