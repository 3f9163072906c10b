"""Inside a build stage: a shared library without its symbol and debug tables. What a loader maps keeps every byte.

The loader, dlopen and dlsym read the dynamic table (.dynsym), which lies in a segment. .symtab, .strtab and .debug_*
lie in none: only debuggers and profilers read them. Segments move within the file by whole pages; the headers of
removed sections become empty ones (SHT_NULL), so that no index of a section changes (gABI, chapters 4 and 5).
"""

import struct
from dataclasses import dataclass

from gb10.inside.elf import ELF_MAGIC, LITTLE_64, PT_LOAD, SHF_ALLOC, SHT_NOBITS, DamagedError, Elf, separate

ET_DYN, SHT_NULL, SHT_SYMTAB, SHT_RELA, SHT_REL = 3, 0, 2, 4, 9
HEADER, SEGMENT, SECTION = 64, 56, 64
PAGE = 1 << 16
"""Bytes of the largest page that an aarch64 kernel has."""
DEBUG = (b".debug_", b".zdebug_", b".gdb_index", b".stab")


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes of the old file that stay together, and where they start in the new one."""

    start: int
    end: int
    place: int


def stripped(data: bytes) -> bytes:
    """The library without these tables, or as it is when it has none; raises DamagedError."""
    if data[:6] != ELF_MAGIC + LITTLE_64:
        raise DamagedError("no 64-bit little-endian ELF file")
    try:
        return without_tables(data)
    except struct.error as error:
        raise DamagedError(str(error)) from error


def without_tables(data: bytes) -> bytes:
    """As ``stripped``; raises struct.error, too, for a file that ends within a header."""
    elf = Elf(data)
    if elf.type != ET_DYN:
        raise DamagedError(f"ELF of type {elf.type}, not a shared library")
    doomed = removable(elf)
    if not doomed:
        return data
    pieces = laid(mapped(elf, data))
    out = bytearray(pieces[-1].place + pieces[-1].end - pieces[-1].start)
    for piece in pieces:
        out[piece.place : piece.place + piece.end - piece.start] = data[piece.start : piece.end]
    move_segments(elf, data, out, pieces)
    rows = moved_sections(elf, data, out, pieces, doomed)
    out += bytes(-len(out) % 8)
    struct.pack_into("<Q", out, 40, len(out))
    found = bytes(out) + b"".join(struct.pack("<IIQQQQIIQQ", *row) for row in rows)
    check_same(data, found)
    return found if len(found) < len(data) else data


def removable(elf: Elf) -> set[int]:
    """The indices of symbol and debug tables, their strings and relocations; none of them is mapped."""
    sections = elf.sections
    loose = {index for index, part in enumerate(sections) if index and not part[2] & SHF_ALLOC}
    (names,) = struct.unpack_from("<H", elf.buffer, 62)
    doomed = {index for index in loose if sections[index][1] == SHT_SYMTAB or is_debug(elf, sections[index])}
    strings = {sections[index][6] for index in doomed if sections[index][1] == SHT_SYMTAB}
    doomed |= strings & loose - {names}
    return doomed | {
        index for index in loose if sections[index][1] in (SHT_RELA, SHT_REL) and sections[index][6] in doomed
    }


def is_debug(elf: Elf, part: tuple[int, ...]) -> bool:
    """Whether a section's name is one of debug information."""
    at = elf.names + part[0]
    return any(elf.buffer[at : at + len(name)] == name for name in DEBUG)


def mapped(elf: Elf, data: bytes) -> list[tuple[int, int]]:
    """The byte ranges that must stay: the header, the table of segments and every segment."""
    (at,) = struct.unpack_from("<Q", data, 32)
    ranges = [(0, HEADER), (at, at + SEGMENT * len(elf.segments))]
    ranges += [(part[2], part[2] + part[5]) for part in elf.segments if part[5]]
    if max(end for _, end in ranges) > len(data):
        raise DamagedError("a segment ends after the file")
    return separate(ranges)


def laid(ranges: list[tuple[int, int]]) -> list[Piece]:
    """Where each range goes: as low as it can, at the same place within a page, so that segments stay aligned."""
    pieces, place = list[Piece](), 0
    for start, end in ranges:
        place += (start - place) % PAGE
        pieces.append(Piece(start, end, place))
        place += end - start
    return pieces


def new_offset(pieces: list[Piece], offset: int) -> int:
    """Where a byte of a segment went; raises DamagedError."""
    for piece in pieces:
        if piece.start <= offset <= piece.end:
            return offset - piece.start + piece.place
    raise DamagedError(f"nothing is kept at {offset:#x}")


def move_segments(elf: Elf, data: bytes, out: bytearray, pieces: list[Piece]) -> None:
    """Write the table of segments with their new offsets."""
    (at,) = struct.unpack_from("<Q", data, 32)
    at = new_offset(pieces, at)
    struct.pack_into("<Q", out, 32, at)
    for index, part in enumerate(elf.segments):
        kind, flags, offset, address, physical, size, memory, align = part
        if kind == PT_LOAD and align > PAGE:
            raise DamagedError(f"a segment is aligned to {align} bytes")
        offset = new_offset(pieces, offset) if size else offset
        struct.pack_into(
            "<IIQQQQQQ", out, at + SEGMENT * index, kind, flags, offset, address, physical, size, memory, align
        )


def moved_sections(
    elf: Elf, data: bytes, out: bytearray, pieces: list[Piece], doomed: set[int]
) -> list[tuple[int, ...]]:
    """The section headers of the new file; the bytes of those outside segments that stay are added to ``out``."""
    rows = list[tuple[int, ...]]()
    for index, part in enumerate(elf.sections):
        name, kind, flags, address, offset, size, link, info, align, entry = part
        if index in doomed:
            rows.append((0,) * 10)
            continue
        if flags & SHF_ALLOC and kind != SHT_NOBITS:
            offset = new_offset(pieces, offset)
        elif index and kind not in (SHT_NULL, SHT_NOBITS):
            out += bytes(-len(out) % max(align, 1))
            offset, start = len(out), offset
            out += data[start : start + size]
        rows.append((name, kind, flags, address, offset, size, link, info, align, entry))
    return rows


def check_same(before: bytes, after: bytes) -> None:
    """Raise DamagedError unless a loader maps the same bytes at the same addresses from both, but for the headers."""
    old, new = image(before), image(after)
    if old != new:
        raise DamagedError("the segments are not the same without the symbol table")


def image(data: bytes) -> list[tuple[int, int, int, int, int, int, memoryview]]:
    """What is mapped: kind, flags, address, place in a page, sizes, bytes; header and table of segments are blank."""
    elf, blank = Elf(data), bytearray(data)
    (at,) = struct.unpack_from("<Q", data, 32)
    for start, size in ((0, HEADER), (at, SEGMENT * len(elf.segments))):
        blank[start : start + size] = bytes(size)
    view = memoryview(blank)
    return [
        (part[0], part[1], part[3], part[2] % PAGE, part[5], part[6], view[part[2] : part[2] + part[5]])
        for part in elf.segments
    ]
