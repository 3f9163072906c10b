"""A source's files where they lie: what is read, and what is told when it cannot be."""

import bz2
import gzip
import io
import lzma
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from gb10.errors import PatchError
from gb10.image.patches import archives
from gb10.image.patches.source_tree import open_tree

TEXT = b"X = 1\n" * 100


def sdist(path: Path, *links: tuple[str, str]) -> Path:
    """An archive with one file, and hard links by name and target."""
    with tarfile.open(path, "w:gz") as archive:
        file = tarfile.TarInfo("./demo-1.0/demo/a.py")
        file.size = len(TEXT)
        archive.addfile(file, io.BytesIO(TEXT))
        for name, target in links:
            link = tarfile.TarInfo(f"./demo-1.0/{name}")
            link.type, link.linkname = tarfile.LNKTYPE, f"./demo-1.0/{target}"
            archive.addfile(link)
    return path


def wheel(path: Path, method: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("demo/a.py", TEXT)
    return path


def damage(path: Path, offset: int) -> Path:
    content = bytearray(path.read_bytes())
    content[offset] ^= 0xFF
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_damaged_file_of_a_wheel_is_told_with_its_place(tmp_path: Path, method: int) -> None:
    path = damage(wheel(tmp_path / "demo-1.0-py3-none-any.whl", method), 30 + len("demo/a.py"))
    tree = open_tree(path)
    with pytest.raises(PatchError, match=r"demo/a\.py cannot be read") as caught:
        tree.read("demo/a.py")
    assert str(path) in str(caught.value)
    assert "hint:" in str(caught.value)


@pytest.mark.parametrize("offset", [1, 30, -6])
def test_a_damaged_source_archive_is_no_source_tree(tmp_path: Path, offset: int) -> None:
    path = sdist(tmp_path / "demo-1.0.tar.gz")
    with pytest.raises(PatchError, match="is no source tree"):
        open_tree(damage(path, offset))


def test_a_hard_link_of_a_source_archive_is_the_file_that_it_names(tmp_path: Path) -> None:
    tree = open_tree(sdist(tmp_path / "demo-1.0.tar.gz", ("demo/b.py", "demo/a.py"), ("demo/c.py", "demo/b.py")))
    assert tree.paths() == ("demo/a.py", "demo/b.py", "demo/c.py")
    assert {tree.read(path) for path in tree.paths()} == {TEXT}


def test_a_hard_link_to_nothing_is_told(tmp_path: Path) -> None:
    with pytest.raises(PatchError, match=r"demo/b\.py is a hard link to .*gone\.py") as caught:
        open_tree(sdist(tmp_path / "demo-1.0.tar.gz", ("demo/b.py", "demo/gone.py")))
    assert "hint:" in str(caught.value)


def test_a_folder_below_a_git_folder_is_seen_and_its_own_git_folder_is_not(tmp_path: Path) -> None:
    folder = tmp_path / ".git/work/demo"
    for path in (folder / "a.py", folder / ".git/config", folder / "sub/.git/config"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(TEXT)
    assert open_tree(folder).paths() == ("a.py",)


def test_links_that_lead_in_a_circle_are_told_and_hide_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes(TEXT)
    (tmp_path / "loop.py").symlink_to("again.py")
    (tmp_path / "again.py").symlink_to("loop.py")
    tree = open_tree(tmp_path)
    assert tree.paths() == ("a.py",)
    for path in ("loop.py", "loop.py/below.py"):
        with pytest.raises(PatchError, match="cannot be read") as caught:
            tree.read(path)
        assert str(tmp_path / path) in str(caught.value)
        assert "hint:" in str(caught.value)


def test_what_a_folder_does_not_hold_as_a_file_is_none(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes(TEXT)
    (tmp_path / "link.py").symlink_to("a.py")
    (tmp_path / "dangling.py").symlink_to("gone.py")
    (tmp_path / "sub").mkdir()
    tree = open_tree(tmp_path)
    assert [tree.read(path) for path in ("gone.py", "a.py/b.py", "sub", "dangling.py")] == [None] * 4
    assert tree.read("link.py") == TEXT


def test_a_link_that_leads_out_of_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out.py").write_bytes(TEXT)
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/a.py").symlink_to("../out.py")
    with pytest.raises(PatchError, match=r"a\.py leads out of the tree"):
        open_tree(tmp_path / "tree").read("a.py")


def packed(path: Path, start: bytes, *, zeros: int = 0) -> Path:
    """A small archive that ends in so many zeros: gzip joins its parts."""
    path.write_bytes(gzip.compress(start, 1) + gzip.compress(bytes(zeros)))
    return path


def member(size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    entry = tarfile.TarInfo("demo-1.0/big.bin")
    entry.size, entry.type = size, kind
    return entry.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
def test_a_small_archive_that_unpacks_to_a_huge_one_is_refused(
    kind: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert archives.MOST_BYTES == 512 << 20
    monkeypatch.setattr(archives, "MOST_BYTES", 5 << 20)
    path = packed(tmp_path / "demo-1.0.tar.gz", member(6 << 20, kind), zeros=6 << 20)
    assert path.stat().st_size < 20 << 10
    with pytest.raises(PatchError, match="holds more than 5 MiB"):
        open_tree(path)


def test_a_file_of_holes_counts_with_them(tmp_path: Path) -> None:
    header = bytearray(member(0, tarfile.GNUTYPE_SPARSE))
    header[483:495] = b"%011o\0" % (4 << 30)  # GNU's real size of a sparse file
    header[148:156] = b"%06o\0 " % (sum(header) - sum(header[148:156]) + 8 * 32)
    with pytest.raises(PatchError, match="holds more than 512 MiB"):
        open_tree(packed(tmp_path / "demo-1.0.tar.gz", bytes(header) + bytes(1024)))


def test_an_archive_of_very_many_files_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert archives.MOST_FILES == 100_000
    monkeypatch.setattr(archives, "MOST_FILES", 1_000)
    with pytest.raises(PatchError, match="holds more than 1,000 files"):
        open_tree(packed(tmp_path / "demo-1.0.tar.gz", member(0) * 1_001))


def test_a_huge_file_of_a_folder_or_a_wheel_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "a.py").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(PatchError, match=r"a\.py holds more than 512 MiB"):
        open_tree(tmp_path).read("a.py")
    path = wheel(tmp_path / "demo-1.0-py3-none-any.whl", zipfile.ZIP_DEFLATED)
    content = path.read_bytes()
    size = len(TEXT).to_bytes(4, "little")
    path.write_bytes(content.replace(size, (1 << 30).to_bytes(4, "little")))
    with pytest.raises(PatchError, match=r"a\.py holds more than 512 MiB"):
        open_tree(path).read("demo/a.py")


def test_a_file_of_a_wheel_takes_no_more_memory_than_its_bytes(tmp_path: Path) -> None:
    """Its header claims 4 GiB of stored bytes; reading that at once ends in a MemoryError."""
    path = wheel(tmp_path / "demo-1.0-py3-none-any.whl")
    content, size = path.read_bytes(), len(TEXT).to_bytes(4, "little")
    at = content.rindex(size + size)
    path.write_bytes(content[:at] + b"\xfe\xff\xff\xff" + content[at + 4 :])
    tree = open_tree(path)
    tracemalloc.start()
    try:
        with suppress(PatchError):
            tree.read("demo/a.py")
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_wheel_that_is_packed_otherwise_than_wheels_are_is_refused(tmp_path: Path, method: int) -> None:
    tree = open_tree(wheel(tmp_path / "demo-1.0-py3-none-any.whl", method))
    with pytest.raises(PatchError, match=r"demo/a\.py cannot be read: its compression is neither"):
        tree.read("demo/a.py")


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress, bytes])
def test_archives_of_each_compression_are_read(pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    path = sdist(tmp_path / "demo-1.0.tar.gz")
    path.write_bytes(pack(gzip.decompress(path.read_bytes())))
    assert open_tree(path).read("demo/a.py") == TEXT
