"""The linker's cache of a foreign root: which names it has, and which file each name leads to."""

import io
import struct
import tarfile
from pathlib import Path

import pytest

from gb10.image.rootfs.linker import CACHE, Library, render_cache, soname, version_key, write_linker_cache
from gb10.image.rootfs.root_tar import Tree
from gb10.inside.scan.ld_so_cache import read_cache

ARM, X86, RISCV = 183, 62, 243
LOAD, DYNAMIC = 1, 2


def library(name: str = "", machine: int = ARM, *, kind: int = 3, dynamic: bool = True) -> bytes:
    """A shared object whose dynamic section names it; its strings are mapped 0x1000 above their place in the file."""
    rows = 3 if dynamic else 2
    start = 64 + 56 * rows
    strings = b"\0" + name.encode() + b"\0"
    tags = [(5, 0x1000 + start)] + ([(14, 1)] if name else []) + [(0, 0)]
    body = strings + b"".join(struct.pack("<qQ", *tag) for tag in tags)
    end = start + len(body)
    header = b"\x7fELF\2\1\1" + bytes(9)
    header += struct.pack("<HHIQQQIHHHHHH", kind, machine, 1, 0, 64, 0, 0, 64, 56, rows, 0, 0, 0)
    segments = [(LOAD, 4, 0, 0, 0, 64, 64, 8), (LOAD, 4, start, 0x1000 + start, 0, end - start, end - start, 8)]
    if dynamic:
        at = start + len(strings)
        segments.append((DYNAMIC, 4, at, 0x1000 + at, 0, end - at, end - at, 8))
    return header + b"".join(struct.pack("<IIQQQQQQ", *row) for row in segments) + body


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (library("liba.so.1"), (ARM, "liba.so.1")),
        (library("liba.so.1", X86), (X86, "liba.so.1")),
        (library(), (ARM, "")),
        (library("liba.so.1", dynamic=False), (ARM, "")),
        (library("liba.so.1", kind=2), None),
        (b"\x7fELF\1\1" + library("liba.so.1")[6:], None),
        (b"INPUT(-lm)", None),
    ],
    ids=["arm", "x86", "no soname", "no dynamic section", "program", "32 bits", "text"],
)
def test_the_name_that_a_library_gives_itself(content: bytes, found: tuple[int, str] | None) -> None:
    assert soname(content) == found


def test_every_byte_of_a_cache() -> None:
    """As ldconfig of glibc 2.41 writes them for two libraries, but for its extensions behind the strings."""
    made = render_cache([Library("libb.so.2", "/lib/libb.so.2", 0x0A03), Library("liba.so.1", "/x/a", 0x0303)])
    strings = b"libb.so.2\0/lib/libb.so.2\0liba.so.1\0/x/a\0"
    entries = [(0x0A03, 96, 106, 0, 0), (0x0303, 121, 131, 0, 0)]
    assert made[:48] == b"glibc-ld.so.cache1.1" + struct.pack("<II", 2, len(strings)) + b"\2" + bytes(19)
    assert made[48:96] == b"".join(struct.pack("<iIIIQ", *row) for row in entries)
    assert made[96:] == strings
    assert made[121:].startswith(b"liba.so.1\0/x/a")


def test_digits_of_names_count_as_numbers() -> None:
    assert version_key("a10.b") == [(0, 97), (1, 10), (0, 46), (0, 98)]
    assert sorted(["liba.so.10", "liba.so.9", "liba-x.so", "liba.so"], key=version_key) == [
        "liba-x.so", "liba.so", "liba.so.9", "liba.so.10",
    ]  # fmt: skip


def test_of_files_with_one_name_the_one_that_has_it_is_taken(tmp_path: Path) -> None:
    same: dict[str, bytes | str] = {
        f"usr/lib/{name}": library("libz.so.1") for name in ("liba.so", "libz.so.1", "libzz.so")
    }
    assert cached(tmp_path, same) == {"libz.so.1": ("/usr/lib/libz.so.1",)}


def cached(folder: Path, files: dict[str, bytes | str]) -> dict[str, tuple[str, ...]]:
    """The cache of a root with these files (bytes) and links (text), as our reader of glibc's format reads it."""
    with Tree(folder / "root.tar", epoch=0) as tree:
        for path, content in files.items():
            info = tarfile.TarInfo(path)
            if isinstance(content, str):
                info.type, info.linkname = tarfile.SYMTYPE, content
                tree.add(info)
            else:
                info.size = len(content)
                tree.add(info, io.BytesIO(content))
        write_linker_cache(tree)
        (folder / "cache").write_bytes(tree.read(CACHE))
    with tarfile.open(folder / "root.tar") as archive:
        assert {(one.uid, one.gid) for one in archive if one.name in (CACHE, "usr/lib")} == {(0, 0)}
    return read_cache(folder / "cache")


def test_a_library_is_known_by_its_own_name_and_a_development_link_by_the_links(tmp_path: Path) -> None:
    found = cached(
        tmp_path,
        {
            "usr/lib/libz.so.1.3": library("libz.so.1"),
            "usr/lib/libz.so.1": "libz.so.1.3",
            "usr/lib/libz.so": "libz.so.1",
            "usr/lib/libold.so": "libz.so.1",
            "usr/lib/libplain.so": library(),
        },
    )
    assert found == {
        "libz.so.1": ("/usr/lib/libz.so.1",),
        "libz.so": ("/usr/lib/libz.so",),
        "libplain.so": ("/usr/lib/libplain.so",),
    }


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    found = cached(
        tmp_path,
        {
            "usr/lib/liba.so.1": library("liba.so.1"),
            "usr/lib/libb.so.1": library("libb.so.1", RISCV),
            "usr/lib/libc.so": b"INPUT(-lm)",
            "usr/lib/libd.so.1": "nowhere",
            "usr/lib/plugin.so.1": library("plugin.so.1"),
            "usr/lib/deep/libe.so.1": library("libe.so.1"),
            "usr/lib/ld-linux-aarch64.so.1": library("ld-linux-aarch64.so.1"),
        },
    )
    assert set(found) == {"liba.so.1", "ld-linux-aarch64.so.1"}


def test_directories_that_a_package_names_come_first(tmp_path: Path) -> None:
    found = cached(
        tmp_path,
        {
            "etc/ld.so.conf.d/a.conf": b"# ours\n/opt/lib\n/nowhere\n/usr/lib\n",
            "etc/ld.so.conf.d/a.txt": b"/other\n",
            "lib": "usr/lib",
            "usr/lib/liba.so.1": library("liba.so.1"),
            "opt/lib/liba.so.1": library("liba.so.1"),
            "other/libb.so.1": library("libb.so.1"),
        },
    )
    assert found == {"liba.so.1": ("/opt/lib/liba.so.1",)}
