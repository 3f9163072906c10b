"""Inside a build stage: a shared library without the GPU code that one compute capability never loads.

Each fatbin keeps what the driver would take from it (loader.py). One that holds nothing for this GPU keeps its smallest
piece of code, so that the driver still says so; or it becomes empty. A fatbin that is named by a wrapper alone moves
down beside the one before, and the wrapper's relocation follows. Every other byte keeps its address. Pages that are
zero then leave the file (layout.py).

Wrappers are ``__fatBinC_Wrapper_t`` of CUDA's fatbinary_section.h: magic, version, address of the fatbin, one more.
"""

import hashlib
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from gb10.inside.scan.code_fit import chosen
from gb10.inside.scan.elf import SHF_ALLOC, SHT_NOBITS, DamagedError, Elf, Row
from gb10.inside.scan.fatbin import CUBIN_KIND, FATBIN_HEADER, FATBIN_MAGIC, check_entry, entries, fatbin_size
from gb10.inside.slim.layout import PAGE, Range, laid_out
from gb10.inside.slim.references import References, read_references

HOLDERS = (b".nv_fatbin", b"__nv_relfatbin", b".cask_resource")
"""Sections that hold fatbins. Those elsewhere belong to a library's own data, and stay."""
ALIGN, PARTS = 256, 1 << 12


@dataclass(frozen=True, slots=True)
class Block:
    """Bytes of a section that stay together: the addresses they had, what they are now, where they go.

    ``relocation``: where in the file the one relocation is that names them, if they may move; else 0.
    """

    start: int
    end: int
    content: bytes
    place: int
    relocation: int = 0


def thinned(data: bytes, capability: str, *, hollow: bool) -> bytes:
    """The library with what the GPU may load alone; raises DamagedError when it is not what it says.

    ``hollow``: fatbins of which it may load nothing become empty.
    """
    try:
        edited, dead = without_other_code(data, capability, hollow=hollow)
        found = laid_out(edited, dead=dead) if any(high - low > PAGE for low, high in dead) else data
        same = loaded_code(data, capability) == loaded_code(found, capability)
    except (struct.error, OverflowError) as error:
        raise DamagedError(str(error)) from error
    if not same:
        raise DamagedError("the driver would not load the same code")
    return found


def without_other_code(data: bytes, capability: str, *, hollow: bool) -> tuple[bytes, list[Range]]:
    """The library with zeros instead of other code, and the addresses of the long ones; raises DamagedError.

    Raises struct.error, too, for a file that ends within a header.
    """
    elf, edited = Elf(data), bytearray(data)
    sections = holders(elf)
    if not sections:
        raise DamagedError("no section of fatbins")
    references, dead = read_references(elf, [(part[3], part[3] + part[5]) for part in sections]), list[Range]()
    changed = [(part[4], part[4] + part[5]) for part in sections]
    for part in sections:
        blocks = list(packed(blocks_of(elf, part, references, capability, hollow=hollow)))
        write_blocks(edited, part, blocks)
        for block in blocks:
            if block.place != block.start:
                changed += references.move(edited, block.relocation, block.place)
        dead += gaps(part, blocks)
    check_rest(data, edited, changed)
    return bytes(edited), dead


def check_rest(data: bytes, edited: bytearray, changed: Sequence[Range]) -> None:
    """Raise DamagedError when a byte outside of these ranges is another one."""
    at, before, after = 0, memoryview(data), memoryview(edited)
    for start, end in [*sorted(changed), (len(data), len(data))]:
        if before[at:start] != after[at:start]:
            raise DamagedError(f"bytes before {start:#x} would change")
        at = max(at, end)


def holders(elf: Elf) -> list[Row]:
    """The sections of fatbins; raises DamagedError when they are not where a segment is mapped from."""
    names = [elf.buffer[elf.names + part[0] : elf.names + part[0] + 16].split(b"\0")[0] for part in elf.sections]
    found = [
        part
        for part, name in zip(elf.sections, names, strict=True)
        if name in HOLDERS and part[2] & SHF_ALLOC and part[1] != SHT_NOBITS and part[5]
    ]
    if len(found) > PARTS:
        raise DamagedError(f"{len(found)} sections of fatbins")
    for part in found:
        ends = elf.offset(part[3]), elf.offset(part[3] + part[5] - 1)
        if ends != (part[4], part[4] + part[5] - 1) or ends[1] >= len(elf.buffer):
            raise DamagedError(f"the section at {part[3]:#x} is not where its segment is mapped from")
    return found


def blocks_of(elf: Elf, part: Row, references: References, capability: str, *, hollow: bool) -> Iterator[Block]:
    """The fatbins of a section and what else is not zero in it, in order; raises DamagedError."""
    shift, at, stop = part[3] - part[4], part[4], part[4] + part[5]
    for start, end in fatbins(elf, part):
        yield from other(elf, at, start, shift)
        content, relocation = elf.buffer[start:end], 0
        if not references.within(start + shift, end + shift):
            content = thin_fatbin(elf, start, end, capability, hollow=hollow)
            relocation = references.movable(start + shift, end + shift)
        yield Block(start + shift, end + shift, content, start + shift, relocation)
        at = end
    yield from other(elf, at, stop, shift)


def fatbins(elf: Elf, part: Row) -> Iterator[Range]:
    """Where in the file the fatbins of a section are; raises DamagedError."""
    at, stop = part[4], part[4] + part[5]
    while (at := elf.buffer.find(FATBIN_MAGIC, at, stop)) >= 0:
        size = fatbin_size(elf.buffer, at, stop)
        if size:
            yield at, at + size
        at += size or len(FATBIN_MAGIC)


def other(elf: Elf, start: int, end: int, shift: int) -> Iterator[Block]:
    """Bytes between fatbins as one block, unless they are zero."""
    content = elf.buffer[start:end]
    if found := content.strip(b"\0"):
        first = start + shift + content.index(found)
        yield Block(first, first + len(found), found, first)


def thin_fatbin(elf: Elf, start: int, end: int, capability: str, *, hollow: bool) -> bytes:
    """One fatbin with what the driver may take of it; raises DamagedError when an entry and its cubin disagree."""
    found = list(entries(elf.buffer, start + FATBIN_HEADER, end))
    for entry in found:
        if entry.kind == CUBIN_KIND:
            check_entry(elf.buffer, entry)
    wanted = chosen([entry.code for entry in found], capability)
    kept = [entry for entry, stays in zip(found, wanted, strict=True) if stays]
    if not kept and not hollow:
        kept = sorted(found, key=lambda entry: entry.end - entry.at)[:1]
    body = b"".join(elf.buffer[entry.at : entry.end] for entry in kept)
    return elf.buffer[start : start + 8] + struct.pack("<Q", len(body)) + body


def packed(blocks: Iterator[Block]) -> Iterator[Block]:
    """The blocks with their new places: those that may move lie directly behind the one before."""
    cursor = 0
    for block in blocks:
        place = block.start
        if block.relocation and cursor:
            align = min(ALIGN, block.start & -block.start)
            place = cursor + -cursor % align
        yield replace(block, place=place)
        cursor = place + len(block.content)


def write_blocks(edited: bytearray, part: Row, blocks: Sequence[Block]) -> None:
    """The section with these blocks and zeros between them."""
    edited[part[4] : part[4] + part[5]] = bytes(part[5])
    for block in blocks:
        at = block.place - part[3] + part[4]
        edited[at : at + len(block.content)] = block.content


def gaps(part: Row, blocks: Sequence[Block]) -> Iterator[Range]:
    """The addresses of a section between its blocks: those with whole pages, and those at its end."""
    end = part[3] + part[5]
    starts = [*(block.place for block in blocks), end]
    ends = [part[3], *(block.place + len(block.content) for block in blocks)]
    for low, high in zip(ends, starts, strict=True):
        if high - low >= PAGE or low < high == end:
            yield low, high


def loaded_code(data: bytes, capability: str) -> dict[int, list[tuple[str, str]]]:
    """The code that the driver may load of each fatbin, and its sha256, by the address of its wrapper, else its own."""
    elf, found = Elf(data), dict[int, list[tuple[str, str]]]()
    sections = holders(elf)
    references = read_references(elf, [(part[3], part[3] + part[5]) for part in sections])
    for part in sections:
        for start, end in fatbins(elf, part):
            listed = list(entries(elf.buffer, start + FATBIN_HEADER, end))
            wanted = chosen([entry.code for entry in listed], capability)
            address = start - part[4] + part[3]
            found[references.wrapper(address) or address] = [
                (entry.code, hashlib.sha256(elf.buffer[entry.at : entry.end]).hexdigest())
                for entry, stays in zip(listed, wanted, strict=True)
                if stays
            ]
    return found
