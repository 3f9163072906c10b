"""What in a shared library refers to given addresses: relocations, dynamic symbols, and instructions of aarch64."""

import re
import struct
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gb10.inside.scan.elf import DamagedError, Elf

DT_RELA, DT_RELASZ, DT_RELR = 7, 8, 36
SHT_DYNSYM, SHF_EXECINSTR = 11, 4
EM_X86_64, EM_AARCH64 = 62, 183
RELATIVE = {EM_X86_64: 8, EM_AARCH64: 1027}
"""The relocation that stores an address of the library itself, by machine."""
WRAPPER = 0x466243B1
SMALL_PAGE = 4096
ADR = re.compile(rb"[\x10\x30\x50\x70\x90\xb0\xd0\xf0]")
"""The highest byte of ADR and ADRP, the instructions that make an address (Arm ARM, C6.2)."""
Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Relocation:
    """A stored address: where its row is in the file, and the address at which it is stored."""

    row: int
    place: int
    in_wrapper: bool


@dataclass(frozen=True)
class References:
    """The references to some ranges: stored addresses by target, other addresses, pages of code."""

    elf: Elf
    stored: dict[int, list[Relocation]]
    targets: list[int]
    """Sorted: every address that a relocation or a symbol names."""
    pages: frozenset[int]
    """Pages of 4,096 bytes to which code refers."""

    def within(self, start: int, end: int) -> bool:
        """Whether something names an address between these, other than the first."""
        found = bisect_left(self.targets, start + 1)
        return found < len(self.targets) and self.targets[found] < end

    def movable(self, start: int, end: int) -> int:
        """The row of the relocation of the one wrapper that names this address; 0 if anything else refers to it."""
        found = self.stored.get(start, [])
        named = bisect_right(self.targets, start) - bisect_left(self.targets, start)
        if named != 1 or not found or not found[0].in_wrapper:
            return 0
        pages = range(start - start % SMALL_PAGE, end, SMALL_PAGE)
        return 0 if any(page in self.pages for page in pages) else found[0].row

    def wrapper(self, address: int) -> int:
        """The address of the wrapper that names this one; 0 without."""
        return next((one.place for one in self.stored.get(address, []) if one.in_wrapper), 0)

    def move(self, edited: bytearray, row: int, address: int) -> tuple[Range, Range]:
        """Let a relocation store another address; what lies there before the loader comes follows.

        Returns where in the file these two addresses are.
        """
        place, _, old = struct.unpack_from("<QQq", edited, row)
        struct.pack_into("<q", edited, row + 16, address)
        at = self.elf.offset(place)
        if struct.unpack_from("<Q", edited, at)[0] == old:
            struct.pack_into("<Q", edited, at, address)
        return (row + 16, row + 24), (at, at + 8)


def read_references(elf: Elf, ranges: Sequence[Range]) -> References:
    """Everything that refers to these ranges of addresses; raises DamagedError for what it cannot read."""
    stored: dict[int, list[Relocation]] = defaultdict(list)
    for target, relocation in relocations(elf, ranges):
        stored[target].append(relocation)
    named = [target for target in symbols(elf) if inside(target, ranges)]
    targets = sorted([*named, *(target for target, found in stored.items() for _ in found)])
    return References(elf, dict(stored), targets, frozenset(code_pages(elf, ranges)))


def inside(address: int, ranges: Sequence[Range]) -> bool:
    """Whether an address lies in one of the ranges."""
    return any(start <= address < end for start, end in ranges)


def relocations(elf: Elf, ranges: Sequence[Range]) -> Iterator[tuple[int, Relocation]]:
    """The addresses in these ranges that the loader stores, with where it does so; raises DamagedError."""
    tags = dict(elf.dynamic_entries())
    if DT_RELR in tags or elf.machine not in RELATIVE or (DT_RELA in tags) != (DT_RELASZ in tags):
        raise DamagedError("relocations of a kind that is not known")
    if DT_RELA not in tags:
        return
    start, size = elf.offset(tags[DT_RELA]), tags[DT_RELASZ]
    low, high, kind = min(ranges)[0], max(ranges)[1], RELATIVE[elf.machine]
    for index, (place, info, target) in enumerate(struct.iter_unpack("<QQq", elf.buffer[start : start + size])):
        if info == kind and low <= target < high and inside(target, ranges):
            yield target, Relocation(start + 24 * index, place, is_wrapper(elf, place - 8))


def is_wrapper(elf: Elf, address: int) -> bool:
    """Whether a fatbin's wrapper stands at an address."""
    return bool(struct.unpack_from("<I", elf.buffer, elf.offset(address))[0] == WRAPPER)


def symbols(elf: Elf) -> Iterator[int]:
    """The values of the dynamic symbols."""
    for part in elf.sections:
        if part[1] == SHT_DYNSYM:
            for row in struct.iter_unpack("<8xQ8x", elf.buffer[part[4] : part[4] + part[5]]):
                yield row[0]


def code_pages(elf: Elf, ranges: Sequence[Range]) -> Iterator[int]:
    """The pages of these ranges whose address an instruction makes; raises DamagedError for another machine's code."""
    if elf.machine != EM_AARCH64:
        raise DamagedError("only the code of aarch64 is read")
    pages = [(start - start % SMALL_PAGE, end) for start, end in ranges]
    for part in elf.sections:
        if part[2] & SHF_EXECINSTR:
            made = made_pages(elf.buffer[part[4] : part[4] + part[5]], part[3])
            yield from (page for page in made if inside(page, pages))


def made_pages(code: bytes, address: int) -> set[int]:
    """The pages of the addresses that ADR and ADRP make in this code."""
    found = set[int]()
    words = memoryview(code[: len(code) // 4 * 4]).cast("I")
    for match in ADR.finditer(code[3::4]):
        word, at = words[match.start()], address + 4 * match.start()
        value = (word >> 3 & 0x1FFFFC) | (word >> 29 & 3)
        value -= (value & 0x100000) << 1
        found.add((at // SMALL_PAGE + value if word >> 31 else (at + value) // SMALL_PAGE) * SMALL_PAGE)
    return found
