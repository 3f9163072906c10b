"""The headers of one ELF: its segments, its sections, the libraries and symbol versions that it needs.

Every table and string has a limit, so that a hostile file costs no more than a few times its own size.
"""

import mmap
import re
import struct
from collections.abc import Iterator
from functools import cached_property

ELF_MAGIC, LITTLE_64 = b"\x7fELF", b"\x02\x01"
EM_CUDA = 190
ET_REL, PT_LOAD, PT_DYNAMIC, SHT_NOBITS, SHF_ALLOC = 1, 1, 2, 8, 2
DT_NULL, DT_NEEDED, DT_STRTAB, DT_SONAME, DT_VERNEED, DT_VERNEEDNUM = 0, 1, 5, 14, 0x6FFFFFFE, 0x6FFFFFFF
SEGMENTS, SECTIONS, ENTRIES, VERSIONS, STRING = 1 << 12, 1 << 18, 1 << 12, 1 << 14, 1 << 12
"""Limits: rows of the tables, entries of the dynamic section, wanted symbol versions, bytes of a string."""
LIBC_VERSION = re.compile(r"(GLIBC|GLIBCXX)_([0-9]{1,4}(?:\.[0-9]{1,4}){0,4})")
Buffer = bytes | mmap.mmap
Row = tuple[int, ...]


class DamagedError(Exception):
    """A file contradicts itself: a header points past its end, an entry does not fit."""


class Elf:
    """The headers of one 64-bit little-endian ELF image; raises DamagedError and struct.error."""

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer
        self.abi = buffer[8] if len(buffer) > 8 else 0
        self.type, self.machine = struct.unpack_from("<HH", buffer, 16)
        (self.flags,) = struct.unpack_from("<I", buffer, 48)

    def check(self) -> None:
        """Raise DamagedError unless both tables lie within the file."""
        _ = self.segments, self.sections

    @cached_property
    def segments(self) -> list[Row]:
        """The program headers."""
        (at,) = struct.unpack_from("<Q", self.buffer, 32)
        (count,) = struct.unpack_from("<H", self.buffer, 56)
        return self.rows("segments", "<IIQQQQQQ", at, count, SEGMENTS)

    @cached_property
    def sections(self) -> list[Row]:
        """The section headers; a count that needs more than 16 bits stands in the first of them."""
        (at,) = struct.unpack_from("<Q", self.buffer, 40)
        (count,) = struct.unpack_from("<H", self.buffer, 60)
        if at and not count:
            (count,) = struct.unpack_from("<Q", self.buffer, at + 32)
        return self.rows("sections", "<IIQQQQIIQQ", at, count, SECTIONS)

    def rows(self, what: str, layout: str, at: int, count: int, limit: int) -> list[Row]:
        """The rows of a table; raises DamagedError when it is longer than the limit or the file."""
        size = struct.calcsize(layout)
        if count > limit:
            raise DamagedError(f"{count} {what}, the limit is {limit}")
        if count and at + size * count > len(self.buffer):
            raise DamagedError(f"{count} {what} at {at:#x} end after the file, which has {len(self.buffer):#x} bytes")
        return list(struct.iter_unpack(layout, self.buffer[at : at + size * count]))

    @property
    def loaded(self) -> list[tuple[int, int]]:
        """The byte ranges that a loader maps (segments) or a linker takes (an object's sections); none overlap."""
        ranges = [(part[2], part[2] + part[5]) for part in self.segments if part[0] == PT_LOAD and part[5]]
        if self.type == ET_REL:
            taken = (part for part in self.sections if part[2] & SHF_ALLOC and part[1] != SHT_NOBITS)
            ranges = [(part[4], part[4] + part[5]) for part in taken]
        if any(end > len(self.buffer) for _, end in ranges):
            raise DamagedError(f"{max(ranges)[1]:#x} bytes are mapped, the file ends at {len(self.buffer):#x}")
        return separate(ranges)

    def named(self, name: bytes) -> bytes:
        """The bytes of a section, none when it is absent; raises DamagedError."""
        whole = name + b"\0"
        for part in self.sections:
            at = self.names + part[0]
            if self.buffer[at : at + len(whole)] == whole:
                return self.buffer[part[4] : part[4] + part[5]]
        return b""

    @cached_property
    def names(self) -> int:
        """Where the names of the sections start; raises DamagedError."""
        (index,) = struct.unpack_from("<H", self.buffer, 62)
        if index >= len(self.sections):
            raise DamagedError("no section holds the names of the sections")
        return int(self.sections[index][4])

    def string(self, at: int, limit: int = STRING) -> str:
        """The zero-terminated string at an offset; raises DamagedError."""
        if (end := self.buffer.find(b"\0", at, at + limit)) >= 0:
            return self.buffer[at:end].decode()
        raise DamagedError(f"the string at {at:#x} has no end within {limit} bytes")

    def dynamic(self) -> tuple[tuple[str, ...], str, dict[str, str]]:
        """NEEDED, SONAME and the newest GLIBC and GLIBCXX versions that it wants; empty for a static one."""
        entries = list(self.dynamic_entries())
        tags = dict(reversed(entries))
        if DT_STRTAB not in tags:
            return (), "", {}
        strings = self.offset(tags[DT_STRTAB])
        needed = tuple(self.string(strings + value) for tag, value in entries if tag == DT_NEEDED)
        soname = self.string(strings + tags[DT_SONAME]) if DT_SONAME in tags else ""
        return needed, soname, newest(self.wanted(tags, strings))

    def dynamic_entries(self) -> Iterator[tuple[int, int]]:
        """Tag and value of each entry of the dynamic section, up to its end; raises DamagedError."""
        section = next((part for part in self.segments if part[0] == PT_DYNAMIC), None)
        if section is None:
            return
        for index in range(section[5] // 16):
            tag, value = struct.unpack_from("<QQ", self.buffer, section[2] + 16 * index)
            if tag == DT_NULL:
                return
            if index == ENTRIES:
                raise DamagedError(f"the dynamic section has more than {ENTRIES} entries")
            yield tag, value

    def wanted(self, tags: dict[int, int], strings: int) -> Iterator[str]:
        """Every symbol version that it wants of another library: GLIBC_2.34; raises DamagedError."""
        at = self.offset(tags[DT_VERNEED]) if DT_VERNEED in tags else 0
        left = VERSIONS
        for _ in range(tags.get(DT_VERNEEDNUM, 0)):
            count, aux, following = struct.unpack_from("<2xH4xII", self.buffer, at)
            left -= 1 + count
            if left < 0:
                raise DamagedError(f"more than {VERSIONS} symbol versions are wanted")
            aux += at
            for _ in range(count):
                name, step = struct.unpack_from("<8xII", self.buffer, aux)
                yield self.string(strings + name)
                aux += step
            at += following
            if not following:
                break

    def offset(self, address: int) -> int:
        """Where in the file an address is mapped from; raises DamagedError."""
        for part in self.segments:
            if part[0] == PT_LOAD and part[3] <= address < part[3] + part[5]:
                return part[2] + address - part[3]
        raise DamagedError(f"address {address:#x} lies in no segment")


def separate(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The ranges by their start, overlapping ones as one, so that no byte is read twice."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if found and start < found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


def newest(names: Iterator[str]) -> dict[str, str]:
    """The newest version of each C library's symbols."""
    found: dict[str, tuple[int, ...]] = {}
    for name in names:
        if match := LIBC_VERSION.fullmatch(name):
            version = tuple(map(int, match[2].split(".")))
            found[match[1]] = max(version, found.get(match[1], ()))
    return {library: ".".join(map(str, version)) for library, version in sorted(found.items())}
