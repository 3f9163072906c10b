"""The headers of an ELF: of one written here byte by byte, and of damaged ones."""

import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

from gb10.inside.scan import elf
from gb10.inside.scan.elf import DamagedError, Elf, newest, separate

LIBRARY = (Path(__file__).parents[1] / "data/scan/libk.so").read_bytes()
LOAD, DYNAMIC, NOTE = 1, 2, 4
PROGBITS, NOBITS, ALLOC = 1, 8, 2
BASE = 0x1000
"""Addresses are offsets and so much."""
STRINGS = b"\0libm.so.6\0libc.so.6\0libown.so\0GLIBC_2.34\0GLIBC_2.9\0GLIBCXX_3.4.30\0"


def image(
    *, kind: int = 3, segments: Sequence[tuple[int, ...]], sections: Sequence[tuple[int, ...]] = (), body: bytes = b""
) -> bytes:
    """Header, program headers, section headers, body; section 0 holds the names."""
    at_sections = 64 + 56 * len(segments)
    header = elf.ELF_MAGIC + elf.LITTLE_64 + b"\1\0\7" + bytes(7)
    header += struct.pack(
        "<HHIQQQIHHHHHH", kind, 190, 1, 0, 64, at_sections if sections else 0, 0x79, 64, 56, 0, 0, 0, 0
    )
    whole = bytearray(header)
    struct.pack_into("<H", whole, 56, len(segments))
    struct.pack_into("<H", whole, 60, len(sections))
    for row in segments:
        whole += struct.pack("<IIQQQQQQ", *row)
    for row in sections:
        whole += struct.pack("<IIQQQQIIQQ", *row)
    return bytes(whole) + body


def load(start: int, size: int, kind: int = LOAD) -> tuple[int, ...]:
    return (kind, 5, start, start + BASE, start, size, size, 8)


def section(name: int, kind: int, flags: int, start: int, size: int) -> tuple[int, ...]:
    return (name, kind, flags, 0, start, size, 0, 0, 1, 0)


def linked(versions: list[list[int]], count: int | None = None) -> bytes:
    """A library that needs two others; ``versions``: of each of them the offsets of the names that it wants."""
    head = 64 + 2 * 56
    needs = b""
    for number, names in enumerate(versions):
        last = number == len(versions) - 1
        needs += struct.pack("<HHIII", 1, len(names), 0, 16, 0 if last else 16 + 16 * len(names))
        needs += b"".join(
            struct.pack("<IHHII", 0, 0, 2, name, 0 if place == len(names) - 1 else 16)
            for place, name in enumerate(names)
        )
    dynamic = [
        *((elf.DT_NEEDED, at) for at in (1, 11)),
        (elf.DT_SONAME, 21),
        (elf.DT_STRTAB, BASE + head),
        (elf.DT_VERNEED, BASE + head + len(STRINGS)),
        (elf.DT_VERNEEDNUM, len(versions) if count is None else count),
        (0, 0),
        (elf.DT_NEEDED, 32),
    ]
    body = STRINGS + needs
    start = head + len(body)
    body += b"".join(struct.pack("<QQ", *entry) for entry in dynamic)
    size = head + len(body)
    return image(segments=[load(0, size), load(start, size - start, DYNAMIC)], body=body)


AT = {name: STRINGS.index(name.encode()) for name in ("GLIBC_2.34", "GLIBC_2.9", "GLIBCXX_3.4.30")}


def test_a_library_says_what_it_needs() -> None:
    found = Elf(linked([[AT["GLIBC_2.9"]], [AT["GLIBC_2.34"], AT["GLIBCXX_3.4.30"]]]))
    assert (found.type, found.machine, found.abi, found.flags) == (3, 190, 7, 0x79)
    assert found.dynamic() == (("libm.so.6", "libc.so.6"), "libown.so", {"GLIBC": "2.34", "GLIBCXX": "3.4.30"})


def test_no_more_versions_are_read_than_there_are() -> None:
    """The count may be larger than the list, and then the list's own end counts."""
    names = [[AT["GLIBC_2.9"]], [AT["GLIBC_2.34"]]]
    assert Elf(linked(names, count=1)).dynamic()[2] == {"GLIBC": "2.9"}
    assert Elf(linked(names, count=9)).dynamic()[2] == {"GLIBC": "2.34"}


def test_a_static_program_needs_nothing() -> None:
    assert Elf(image(segments=[load(0, 100)])).dynamic() == ((), "", {})


def test_wanted_versions_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = linked([[AT["GLIBC_2.9"]], [AT["GLIBC_2.34"], AT["GLIBCXX_3.4.30"]]])
    monkeypatch.setattr(elf, "VERSIONS", 5)
    assert Elf(whole).dynamic()[2]
    monkeypatch.setattr(elf, "VERSIONS", 4)
    with pytest.raises(DamagedError, match="more than 4 symbol versions"):
        Elf(whole).dynamic()


def test_the_dynamic_section_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = linked([[AT["GLIBC_2.9"]]])
    monkeypatch.setattr(elf, "ENTRIES", 6)
    assert len(list(Elf(whole).dynamic_entries())) == 6
    monkeypatch.setattr(elf, "ENTRIES", 5)
    with pytest.raises(DamagedError, match="more than 5 entries"):
        Elf(whole).dynamic()


def test_an_address_is_looked_up_in_the_segment_that_maps_it() -> None:
    found = Elf(image(segments=[load(0, 16, NOTE), load(256, 16), load(512, 16)], body=bytes(512)))
    assert found.offset(BASE + 256) == 256
    assert found.offset(BASE + 512 + 15) == 527
    for outside in (BASE, BASE + 255, BASE + 272, BASE + 528):
        with pytest.raises(DamagedError, match="lies in no segment"):
            found.offset(outside)


def test_what_is_loaded_of_a_library_are_its_segments() -> None:
    rows = [load(0, 200), load(150, 100), load(400, 0), load(300, 50, NOTE)]
    assert Elf(image(segments=rows, body=bytes(200))).loaded == [(0, 250)]


def test_what_is_loaded_of_an_object_are_its_sections() -> None:
    rows = [section(0, PROGBITS, ALLOC, 256, 8), section(0, NOBITS, ALLOC, 0, 8), section(0, PROGBITS, 1, 272, 8)]
    whole = image(kind=1, segments=[], sections=rows, body=bytes(64))
    assert Elf(whole).loaded == [(256, 264)]


def test_a_segment_may_end_where_the_file_ends() -> None:
    assert Elf(image(segments=[load(100, 20)])).loaded == [(100, 120)]
    with pytest.raises(DamagedError, match=r"0x79 bytes are mapped, the file ends at 0x78"):
        _ = Elf(image(segments=[load(100, 21)])).loaded


def test_a_section_is_found_by_its_whole_name() -> None:
    names = b"\0.text\0.text.hot\0"
    rows = [section(0, 3, 0, 256, len(names)), section(7, PROGBITS, 0, 288, 3), section(1, PROGBITS, 0, 291, 2)]
    whole = image(segments=[], sections=rows, body=names.ljust(32, b"\0") + b"hotis")
    assert len(whole) == 293
    found = Elf(whole)
    assert (found.named(b".text.hot"), found.named(b".text"), found.named(b".tex")) == (b"hot", b"is", b"")


def test_the_names_must_be_in_a_section() -> None:
    whole = bytearray(image(segments=[], sections=[section(0, 3, 0, 128, 1)], body=b"\0"))
    struct.pack_into("<H", whole, 62, 1)
    with pytest.raises(DamagedError, match="no section holds the names"):
        Elf(bytes(whole)).named(b".text")


def test_a_count_of_more_than_16_bits_stands_in_the_first_section() -> None:
    whole = bytearray(image(segments=[], sections=[section(0, 0, 0, 0, 2), section(0, 3, 0, 0, 0)]))
    struct.pack_into("<H", whole, 60, 0)
    assert len(Elf(bytes(whole)).sections) == 2


@pytest.mark.parametrize(("at", "count", "what"), [(56, 4097, "4097 segments"), (60, 2, "2 sections at 0x78 end")])
def test_tables_that_are_too_long_are_damage(at: int, count: int, what: str) -> None:
    whole = bytearray(image(segments=[load(0, 8)], sections=[section(0, 3, 0, 0, 1)]))
    Elf(bytes(whole)).check()
    struct.pack_into("<H", whole, at, count)
    with pytest.raises(DamagedError, match=what):
        Elf(bytes(whole)).check()


def test_a_string_ends_within_the_limit() -> None:
    found = Elf(LIBRARY[:64] + b"abc\0")
    assert found.string(64) == found.string(64, limit=4) == "abc"
    assert found.string(66, limit=2) == "c"
    with pytest.raises(DamagedError, match="has no end within 3 bytes"):
        found.string(64, limit=3)


def test_ranges_that_touch_stay_apart_and_overlapping_ones_become_one() -> None:
    assert separate([(4, 8), (0, 4)]) == [(0, 4), (4, 8)]
    assert separate([(0, 9), (2, 3), (8, 12)]) == [(0, 12)]
    assert separate([]) == []


def test_the_newest_version_is_by_number() -> None:
    names = ["GLIBC_2.9", "GLIBC_2.34", "GLIBC_2.4", "GLIBCXX_3.4.9", "GLIBCXX_3.4.30", "GLIBC_PRIVATE", "CXXABI_1.3"]
    assert newest(iter(names)) == {"GLIBC": "2.34", "GLIBCXX": "3.4.30"}


def test_a_short_file_has_no_abi() -> None:
    whole = image(segments=[])
    assert Elf(whole).abi == 7
    with pytest.raises(struct.error):
        Elf(whole[:8])
