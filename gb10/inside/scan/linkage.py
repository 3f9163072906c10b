"""What the loader reads of one ELF: where to look for libraries, the symbols it offers, the symbols it needs.

A symbol is written ``name`` or ``name@VERSION``. Wanted are those of relocations alone, as the loader looks up no
other: when the library is loaded, or, by the procedure table of a library that binds lazily, when one is called first.
Weak ones may be missing.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat

from gb10.inside.scan.elf import VERSIONS, Buffer, DamagedError, Elf

PT_INTERP = 3
DT_PLTRELSZ, DT_HASH, DT_SYMTAB, DT_RELA, DT_RELASZ, DT_STRSZ = 2, 4, 6, 7, 8, 10
DT_NEEDED, DT_STRTAB, DT_SONAME, DT_RPATH, DT_JMPREL, DT_BIND_NOW, DT_RUNPATH, DT_FLAGS = 1, 5, 14, 15, 23, 24, 29, 30
DT_GNU_HASH, DT_VERSYM, DT_FLAGS_1 = 0x6FFFFEF5, 0x6FFFFFF0, 0x6FFFFFFB
DT_VERDEF, DT_VERDEFNUM, DT_VERNEED, DT_VERNEEDNUM = 0x6FFFFFFC, 0x6FFFFFFD, 0x6FFFFFFE, 0x6FFFFFFF
DF_BIND_NOW, DF_1_NOW, DF_1_PIE, VER_FLG_BASE = 0x8, 0x1, 0x8000000, 0x1
LOCAL, WEAK, UNDEFINED, SEEN = 0, 2, 0, (0, 3)
"""Of a symbol: its binding; the section of a needed one; the visibilities that others see."""
SYMBOLS, NAMES = 1 << 21, 8
"""Limits: symbols of a file, and how often their names may be as long as the file."""
NAME = 1 << 16
"""Bytes of a symbol's name; C++ templates have some thousand."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Linkage:
    """One library or program. ``search`` is its RUNPATH, else its RPATH, which also serves the libraries it needs."""

    path: str
    machine: int
    soname: str = ""
    program: bool = False
    needed: tuple[str, ...] = ()
    search: str = ""
    inherited: bool = False
    """Whether ``search`` is an RPATH."""
    versioned: bool = False
    """Whether it gives versions to what it offers; a library that does not satisfies every version."""
    offers: str = ""
    """Symbols, one on a line; so are those that it wants."""
    at_load: str = ""
    at_call: str = ""


def read_linkage(buffer: Buffer, path: str) -> Linkage | None:
    """The linkage of an ELF; None for one that no loader links. Raises DamagedError and struct.error."""
    elf = Elf(buffer)
    reader = _Reader(elf)
    if DT_STRTAB not in reader.tags or DT_SYMTAB not in reader.tags:
        return None
    offers, wants = reader.symbols()
    now, lazily = reader.relocated()
    at_load = {wants[index] for index in now if index in wants}
    at_call = {wants[index] for index in lazily if index in wants} - at_load
    runpath, rpath = reader.text(DT_RUNPATH), reader.text(DT_RPATH)
    return Linkage(
        path=path,
        machine=elf.machine,
        soname=reader.text(DT_SONAME),
        program=reader.is_program,
        needed=tuple(reader.string(value) for tag, value in reader.entries if tag == DT_NEEDED),
        search=runpath or rpath,
        inherited=bool(rpath and not runpath),
        versioned=DT_VERDEF in reader.tags,
        offers="\n".join(sorted(offers)),
        at_load="\n".join(sorted(at_load)),
        at_call="\n".join(sorted(at_call)),
    )


class _Reader:
    """The dynamic section of one ELF; every method raises DamagedError and struct.error."""

    def __init__(self, elf: Elf) -> None:
        self.elf, self.buffer = elf, elf.buffer
        self.entries = list(elf.dynamic_entries())
        self.tags = dict(reversed(self.entries))
        self.left = NAMES * len(self.buffer)

    @property
    def is_program(self) -> bool:
        """Whether it is started, and not loaded: libc.so.6 can be both, and has a name."""
        pie = bool(self.tags.get(DT_FLAGS_1, 0) & DF_1_PIE)
        return any(part[0] == PT_INTERP for part in self.elf.segments) and (pie or DT_SONAME not in self.tags)

    @cached_property
    def strings(self) -> bytes:
        """The names of the dynamic section."""
        start = self.elf.offset(self.tags[DT_STRTAB])
        return self.buffer[start : start + self.tags.get(DT_STRSZ, 0)]

    def string(self, at: int) -> str:
        """The string at an offset of the names."""
        end = self.strings.find(b"\0", at, at + NAME)
        self.left -= end - at
        if end < 0 or self.left < 0:
            raise DamagedError(f"the name at {at:#x} has no end, or the names are larger than {NAMES} such files")
        return self.strings[at:end].decode(errors="backslashreplace")

    def text(self, tag: int) -> str:
        """The string that a tag names, none without the tag."""
        return self.string(self.tags[tag]) if tag in self.tags else ""

    @property
    def count(self) -> int:
        """The number of symbols, which only the hash tables know."""
        if DT_HASH in self.tags:
            return int(struct.unpack_from("<4xI", self.buffer, self.elf.offset(self.tags[DT_HASH]))[0])
        return self._by_gnu_hash() if DT_GNU_HASH in self.tags else 0

    def _by_gnu_hash(self) -> int:
        """The end of the last chain of DT_GNU_HASH; symbols before ``first`` cannot be looked up."""
        at = self.elf.offset(self.tags[DT_GNU_HASH])
        buckets, first, words = struct.unpack_from("<III", self.buffer, at)
        start = at + 16 + 8 * words
        table = self._words(start, buckets)
        last = max(table, default=0)
        if last < first:
            return int(first)
        chain = start + 4 * buckets
        for index in range(last, SYMBOLS):
            if struct.unpack_from("<I", self.buffer, chain + 4 * (index - first))[0] & 1:
                return index + 1
        raise DamagedError(f"more than {SYMBOLS} symbols")

    def _words(self, start: int, count: int) -> memoryview:
        found = self.buffer[start : start + 4 * count]
        if len(found) != 4 * count:
            raise DamagedError(f"{count} words at {start:#x} end after the file")
        return memoryview(found).cast("I")

    def symbols(self) -> tuple[set[str], dict[int, str]]:
        """The symbols it offers, and those it needs by their place in the table, without weak ones."""
        count, start = self.count, self.elf.offset(self.tags[DT_SYMTAB])
        table = self.buffer[start : start + 24 * count]
        if count > SYMBOLS or len(table) != 24 * count:
            raise DamagedError(f"{count} symbols, the limit is {SYMBOLS}, or they end after the file")
        offers, wants = set[str](), dict[int, str]()
        rows = struct.iter_unpack("<IBBHQQ", table)
        for index, ((name, info, other, section, _, _), version) in enumerate(
            zip(rows, self.versions(count), strict=False)
        ):
            binding = info >> 4
            if not name or binding == LOCAL or (section == UNDEFINED and binding == WEAK):
                continue
            if section == UNDEFINED:
                wants[index] = self.string(name) + version
            elif other & 3 in SEEN:
                offers.add(self.string(name) + version)
        return offers, wants

    def versions(self, count: int) -> Iterator[str]:
        """``@VERSION`` of each symbol, nothing for one without."""
        if DT_VERSYM not in self.tags:
            return repeat("")
        names = {number: f"@{self.string(at)}" for number, at in (*self._wanted(), *self._defined())}
        start = self.elf.offset(self.tags[DT_VERSYM])
        found = self.buffer[start : start + 2 * count]
        if len(found) != 2 * count:
            raise DamagedError("the versions of the symbols end after the file")
        return (names.get(number & 0x7FFF, "") for number in memoryview(found).cast("H"))

    def _wanted(self) -> Iterator[tuple[int, int]]:
        """Number and name of the versions that it wants."""
        at, left = self._table(DT_VERNEED), VERSIONS
        for _ in range(self.tags.get(DT_VERNEEDNUM, 0) if at else 0):
            count, aux, following = struct.unpack_from("<2xH4xII", self.buffer, at)
            left -= 1 + count
            if left < 0:
                raise DamagedError(f"more than {VERSIONS} symbol versions are wanted")
            place = at + aux
            for _ in range(count):
                number, name, step = struct.unpack_from("<6xHII", self.buffer, place)
                yield number & 0x7FFF, name
                place += step
            at += following
            if not following:
                return

    def _defined(self) -> Iterator[tuple[int, int]]:
        """Number and name of the versions that it gives; the base one is the library's own name."""
        at = self._table(DT_VERDEF)
        for row in range(self.tags.get(DT_VERDEFNUM, 0) if at else 0):
            if row == VERSIONS:
                raise DamagedError(f"more than {VERSIONS} symbol versions are given")
            flags, number, aux, following = struct.unpack_from("<2xHH6xII", self.buffer, at)
            if not flags & VER_FLG_BASE:
                yield number & 0x7FFF, struct.unpack_from("<I", self.buffer, at + aux)[0]
            at += following
            if not following:
                return

    def _table(self, tag: int) -> int:
        return self.elf.offset(self.tags[tag]) if tag in self.tags else 0

    def relocated(self) -> tuple[set[int], set[int]]:
        """The symbols of relocations: those that are looked up at once, and those of the procedure table alone."""
        now, later = self._rows(DT_RELA, DT_RELASZ), self._rows(DT_JMPREL, DT_PLTRELSZ)
        flags = self.tags.get(DT_FLAGS, 0) & DF_BIND_NOW or self.tags.get(DT_FLAGS_1, 0) & DF_1_NOW
        return (now | later, set()) if flags or DT_BIND_NOW in self.tags else (now, later - now)

    def _rows(self, table: int, size: int) -> set[int]:
        if table not in self.tags:
            return set()
        words = self._words(self.elf.offset(self.tags[table]), self.tags.get(size, 0) // 24 * 6)
        return set(words[3::6].tolist())
