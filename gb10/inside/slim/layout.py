"""Inside a build stage: write a shared library again, without some sections and some pages of zeros.

No address changes. Segments move within the file by whole pages. A segment with dead pages becomes several; the size in
memory of each covers the dead pages behind it, so a loader gives zeros there, as it did from the file. The headers of
removed sections become empty ones (SHT_NULL), so that no index of a section changes (gABI, chapters 4 and 5).
"""

import struct
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

from gb10.inside.scan.elf import PT_LOAD, SHF_ALLOC, SHT_NOBITS, DamagedError, Elf, Row

ET_DYN, PT_PHDR, SHT_NULL = 3, 6, 0
HEADER, SEGMENT, SECTION = 64, 56, 64
SECTION_ROW, SEGMENT_ROW = "<IIQQQQIIQQ", "<IIQQQQQQ"
PAGE = 1 << 16
"""Bytes of the largest page that an aarch64 kernel has."""
RESERVED = 0xFF00
"""Sections from which on an ELF header counts them elsewhere."""
Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes of the old file that stay together, and where they start in the new one."""

    start: int
    end: int
    place: int


@dataclass(frozen=True, slots=True)
class Layout:
    """The new table of segments, with the offsets of the old file; where it goes there; the bytes that stay."""

    segments: tuple[Row, ...]
    table: int
    pieces: tuple[Piece, ...]

    def place(self, offset: int) -> int:
        """Where a byte of the old file went, or the end of some; raises DamagedError."""
        for piece in self.pieces:
            if piece.start <= offset < piece.end:
                return offset - piece.start + piece.place
        for piece in self.pieces:
            if offset == piece.end:
                return piece.place + piece.end - piece.start
        raise DamagedError(f"nothing is kept at {offset:#x}")


def laid_out(data: bytes, *, doomed: Set[int] = frozenset(), dead: Sequence[Range] = ()) -> bytes:
    """The library without the sections of these indices, and without the pages in ``dead``.

    ``dead`` are ranges of addresses whose bytes are zero. Raises DamagedError, struct.error.
    """
    elf = Elf(data)
    if elf.type != ET_DYN:
        raise DamagedError(f"ELF of type {elf.type}, not a shared library")
    layout = planned(elf, dead)
    out = bytearray(layout.pieces[-1].place + layout.pieces[-1].end - layout.pieces[-1].start)
    for piece in layout.pieces:
        out[piece.place : piece.place + piece.end - piece.start] = data[piece.start : piece.end]
    write_segments(layout, out)
    rows = list(section_rows(elf, out, layout, doomed, dead))
    out += bytes(-len(out) % 8)
    struct.pack_into("<Q", out, 40, len(out))
    struct.pack_into("<H", out, 60, len(rows) if len(rows) < RESERVED else 0)
    out += b"".join(struct.pack(SECTION_ROW, *row) for row in rows)
    found = bytes(out)
    check_same(data, found, layout)
    return found


def planned(elf: Elf, dead: Sequence[Range]) -> Layout:
    """Decide what stays and where it goes; raises DamagedError."""
    (table,) = struct.unpack_from("<Q", elf.buffer, 32)
    pages, segments = list[Range](), list(elf.segments)
    if dead:
        size = SEGMENT * (len(segments) + len(dead))
        address, rest = reserved(dead, size)
        pages = [page for page in map(whole_pages, rest) if page[0] < page[1]]
        segments = [part for row in segments for part in split(row, pages)]
        table = elf.offset(address)
        segments = [moved_table(row, table, address, len(segments)) for row in segments]
    ranges = [(0, HEADER, 1), (table, table + SEGMENT * len(segments), 1)]
    ranges += [(row[2], row[2] + row[5], row[7] if row[0] == PT_LOAD else 1) for row in segments if row[5]]
    if max(end for _, end, _ in ranges) > len(elf.buffer):
        raise DamagedError("a segment ends after the file")
    return Layout(tuple(segments), table, tuple(laid(ranges)))


def reserved(dead: Sequence[Range], size: int) -> tuple[int, list[Range]]:
    """An address for the table of segments in the first dead range that has room, and what is dead then."""
    for index, (start, end) in enumerate(dead):
        address = start + -start % 8
        if address + size <= end:
            return address, [*dead[:index], (address + size, end), *dead[index + 1 :]]
    raise DamagedError(f"no room for {size} bytes of segments")


def whole_pages(addresses: Range) -> Range:
    """The whole pages within a range of addresses."""
    return addresses[0] + -addresses[0] % PAGE, addresses[1] - addresses[1] % PAGE


def split(row: Row, pages: Sequence[Range]) -> Iterator[Row]:
    """A segment as several, without the dead pages in its part of the file."""
    kind, flags, offset, address, physical, size, memory, align = row
    holes = [(low, high) for low, high in pages if address <= low and high <= address + size]
    if kind != PT_LOAD or not holes:
        yield row
        return
    starts = [address, *(high for _, high in holes)]
    ends = [*(low for low, _ in holes), address + size]
    limits = [*starts[1:], address + memory]
    for start, end, limit in zip(starts, ends, limits, strict=True):
        skip = start - address
        yield kind, flags, offset + skip, start, physical + skip, end - start, limit - start, align


def moved_table(row: Row, table: int, address: int, count: int) -> Row:
    """The row that describes the table of segments itself, for its new place; any other as it is."""
    if row[0] != PT_PHDR:
        return row
    return (row[0], row[1], table, address, address, SEGMENT * count, SEGMENT * count, row[7])


def laid(ranges: Sequence[tuple[int, int, int]]) -> Iterator[Piece]:
    """Where each range goes: as low as it can, at the same place within a page, and as its segment is aligned."""
    place = 0
    for start, end, align in separate(ranges):
        place += (start - place) % max(align, PAGE)
        yield Piece(start, end, place)
        place += end - start


def separate(ranges: Sequence[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """The ranges by their start, overlapping ones as one with the larger alignment."""
    found: list[tuple[int, int, int]] = []
    for start, end, align in sorted(ranges):
        if found and start < found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]), max(align, found[-1][2]))
        else:
            found.append((start, end, align))
    return found


def write_segments(layout: Layout, out: bytearray) -> None:
    """Write the table of segments with their new offsets, and where it is."""
    at = layout.place(layout.table)
    struct.pack_into("<Q", out, 32, at)
    struct.pack_into("<H", out, 56, len(layout.segments))
    for index, (kind, flags, offset, *rest) in enumerate(layout.segments):
        size = rest[2]
        fresh = layout.place(offset) if size else offset
        struct.pack_into(SEGMENT_ROW, out, at + SEGMENT * index, kind, flags, fresh, *rest)


def section_rows(elf: Elf, out: bytearray, layout: Layout, doomed: Set[int], dead: Sequence[Range]) -> Iterator[Row]:
    """The section headers of the new file; the bytes of those outside segments that stay are added to ``out``.

    A section that dead pages divide has its first part at its index, and the others at the end of the table.
    """
    more = list[Row]()
    for index, part in enumerate(elf.sections):
        name, kind, flags, address, offset, size, link, info, align, entry = part
        if index in doomed:
            yield (0,) * 10
        elif flags & SHF_ALLOC and kind != SHT_NOBITS:
            first, *others = divided(part, layout, dead)
            yield first
            more += others
        elif index and kind not in (SHT_NULL, SHT_NOBITS):
            out += bytes(-len(out) % max(align, 1))
            yield name, kind, flags, address, len(out), size, link, info, align, entry
            out += elf.buffer[offset : offset + size]
        else:
            yield part
    yield from more


def divided(part: Row, layout: Layout, dead: Sequence[Range]) -> list[Row]:
    """The parts of a mapped section that are left in the file; without the zeros at its end."""
    name, kind, flags, address, offset, size, *rest = part
    end = next((low for low, high in dead if address < low and high == address + size), address + size)
    stop = offset + end - address
    parts = [(max(offset, piece.start), min(stop, piece.end)) for piece in layout.pieces]
    kept = [(low, high) for low, high in parts if low < high]
    if not kept:
        return [(name, kind, flags, address, layout.place(offset) if not size else 0, 0, *rest)]
    return [(name, kind, flags, address + low - offset, layout.place(low), high - low, *rest) for low, high in kept]


def check_same(before: bytes, after: bytes, layout: Layout) -> None:
    """Raise DamagedError unless a loader maps the same bytes at the same addresses from both, but for the headers."""
    old, new, blank = Elf(before), Elf(after), bytearray(after)
    blank[:HEADER] = before[:HEADER]
    size, at = SEGMENT * len(layout.segments), layout.place(layout.table)
    blank[at : at + size] = before[layout.table : layout.table + size]
    parts = [row for row in new.segments if row[0] == PT_LOAD]
    for row in (row for row in old.segments if row[0] == PT_LOAD):
        own = [part for part in parts if row[3] <= part[3] < row[3] + max(row[6], 1)]
        if not tiled(row, own) or not all(same_bytes(row, part, memoryview(before), memoryview(blank)) for part in own):
            raise DamagedError(f"the segment at {row[3]:#x} is not the same")
    rest = [[(*row[:2], *row[3:]) for row in elf.segments if row[0] not in (PT_LOAD, PT_PHDR)] for elf in (old, new)]
    if rest[0] != rest[1] or any(new.offset(row[3]) != row[2] for row in new.segments if row[5]):
        raise DamagedError("the segments are not the same")


def tiled(row: Row, parts: Sequence[Row]) -> bool:
    """Whether these parts cover the memory of a segment, in order, with its rights."""
    ends = [part[3] + part[6] for part in parts]
    starts = [part[3] for part in parts]
    return (
        [row[3], *ends] == [*starts, row[3] + row[6]]
        and all(part[1] == row[1] and part[7] == row[7] and part[5] <= part[6] for part in parts)
        and not any((part[3] - part[2] - row[3] + row[2]) % max(PAGE, row[7]) for part in parts)
    )


def same_bytes(row: Row, part: Row, before: memoryview, after: memoryview) -> bool:
    """Whether a part maps what the segment maps there: the same bytes, then zeros."""
    start = row[2] + part[3] - row[3]
    stop = min(start + part[6], row[2] + row[5])
    middle = start + part[5]
    return before[start:middle] == after[part[2] : part[2] + part[5]] and not any_set(before[middle:stop])


def any_set(view: memoryview) -> bool:
    """Whether a byte is not zero."""
    return view.tobytes().strip(b"\0") != b""
