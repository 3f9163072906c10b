"""Fatbins and cubins in a byte range: which GPU each piece of code is for.

Two places name the GPU of a cubin: the header of its fatbin entry, by which the driver chooses, and its own ELF flags.
Both are read; a disagreement is damage. A compressed cubin (``--compress-mode``) is not unpacked: of its content, only
the ``a`` is compared, which the entry's header repeats. Layouts are what nvcc 12.9 and 13.0 write.
"""

import re
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from gb10.inside.scan.elf import ELF_MAGIC, EM_CUDA, Buffer, DamagedError, Elf

FATBIN_MAGIC = b"\x50\xed\x55\xba"
CUBIN_ABI_CUDA_12, CUBIN_KIND = 7, 2
KINDS = {1: "compute", CUBIN_KIND: "sm", 8: "lto"}
FLAG_A, FLAG_F, FATBIN_HEADER, ENTRY_MIN, ENTRY_VERSION = 0x100000, 0x200000, 16, 48, 0x101
CODES, BROKEN = 256, 64
"""Limits of one file: different kinds of code, and cubin headers with nothing behind them."""
CUBIN = re.compile(rb"\x7fELF\x02\x01\x01[\x33\x41].{10}\xbe\0", re.DOTALL)
# CUDA 13 writes the ``a`` of a cubin as attribute 9 of .nv.compat; before it come only attributes of four bytes.
COMPAT_A = re.compile(rb"(?:[\x01-\x03](?!\x09)...)*\x02\x09\x01", re.DOTALL)
PTXAS_FAMILY = re.compile(rb"-arch[ =]sm_[0-9]+f\b")
PTXAS_NOTE = b".note.nv.tkinfo"
Codes = dict[str, int]


@dataclass(frozen=True, slots=True)
class Entry:
    """One piece of code in a fatbin: ``sm_120f`` (SASS), ``compute_80`` (PTX), ``lto_90``; where its payload lies."""

    at: int
    kind: int
    code: str
    start: int
    end: int


def units_in(buffer: Buffer, ranges: list[tuple[int, int]]) -> Iterator[Codes]:
    """The fatbins of each range and, between them, the bare cubins; raises DamagedError."""
    seen: set[str] = set()
    for codes in (codes for start, end in ranges for codes in _units(buffer, start, end)):
        seen.update(codes)
        if len(seen) > CODES:
            raise DamagedError(f"more than {CODES} different kinds of code")
        yield codes


def _units(buffer: Buffer, start: int, end: int) -> Iterator[Codes]:
    while (at := buffer.find(FATBIN_MAGIC, start, end)) >= 0:
        if size := fatbin_size(buffer, at, end):
            yield fatbin_codes(buffer, at + FATBIN_HEADER, at + size)
        yield from cubins_in(buffer, start, at)
        start = at + (size or len(FATBIN_MAGIC))
    yield from cubins_in(buffer, start, end)


def fatbin_size(buffer: Buffer, at: int, end: int) -> int:
    """A fatbin's size in bytes with its header; raises DamagedError.

    0 for the magic number as a constant of code: on x86-64 what follows it may look like a header, never like an entry.
    """
    if end - at < FATBIN_HEADER:
        return 0
    version, header, size = struct.unpack_from("<HHQ", buffer, at + 4)
    if (version, header) != (1, FATBIN_HEADER) or (size and not starts_entry(buffer, at + FATBIN_HEADER, end)):
        return 0
    if at + FATBIN_HEADER + size > end:
        raise DamagedError(f"the fatbin at {at:#x} has {size} bytes, {end - at - FATBIN_HEADER} are left")
    return FATBIN_HEADER + int(size)


def starts_entry(buffer: Buffer, at: int, end: int) -> bool:
    """Whether what stands here may be an entry."""
    return end - at >= ENTRY_MIN and struct.unpack_from("<2xH", buffer, at)[0] == ENTRY_VERSION


def fatbin_codes(buffer: Buffer, at: int, end: int) -> Codes:
    """What one fatbin holds; raises DamagedError, also when an entry's header and its cubin disagree."""
    codes: Counter[str] = Counter()
    for entry in entries(buffer, at, end):
        if entry.kind == CUBIN_KIND:
            check_entry(buffer, entry)
        codes[entry.code] += 1
        if len(codes) > CODES:
            raise DamagedError(f"more than {CODES} different kinds of code")
    return dict(codes)


def entries(buffer: Buffer, at: int, end: int) -> Iterator[Entry]:
    """The entries of one fatbin; raises DamagedError."""
    while at < end:
        kind, _, header, payload = struct.unpack_from("<HHIQ", buffer, at)
        if header < ENTRY_MIN or at + header + payload > end:
            raise DamagedError(f"the fatbin entry at {at:#x} does not fit: {header} + {payload} bytes, end {end:#x}")
        arch, flags = struct.unpack_from("<I8xQ", buffer, at + 28)
        suffix = "a" if flags & FLAG_A else "f" if flags & FLAG_F else ""
        code = f"{KINDS.get(kind, f'kind{kind}')}_{arch}{suffix}"
        yield Entry(at, kind, code, at + header, at + header + payload)
        at += header + payload


def check_entry(buffer: Buffer, entry: Entry) -> None:
    """Raise DamagedError when a cubin is for another GPU than the header of its entry states."""
    if buffer[entry.start : entry.start + 4] != ELF_MAGIC:
        found = f"{entry.code.rstrip('f')}a" if _repeats_a(buffer, entry) and entry.code[-1] != "a" else entry.code
    else:
        elf = Elf(buffer[entry.start : entry.end])
        elf.check()
        found = cubin_code(elf)
        if entry.code == f"{found}f" and not tells_family(elf):
            found = entry.code
    if found != entry.code:
        raise DamagedError(f"the fatbin entry at {entry.at:#x} is for {entry.code}, its cubin for {found}")


def _repeats_a(buffer: Buffer, entry: Entry) -> bool:
    """Whether the header of an entry repeats the ``a`` of its cubin's .nv.compat, as CUDA 13 writes it."""
    if entry.start - entry.at < 80:
        return False
    offset, size = struct.unpack_from("<II", buffer, entry.at + 64)
    return COMPAT_A.match(buffer[entry.at + offset + 1 : min(entry.at + offset + size, entry.start)]) is not None


def cubin_code(elf: Elf) -> str:
    """``sm_120a``: number and ``a`` as each ABI of cubins writes them; ``f`` stands in ptxas' own note alone."""
    if elf.machine != EM_CUDA:
        raise DamagedError(f"a cubin of ELF machine {elf.machine}, not {EM_CUDA}")
    if elf.abi == CUBIN_ABI_CUDA_12:
        return f"sm_{elf.flags & 0xFF}{'a' if elf.flags & 0x800 else ''}"
    suffix = "f" if PTXAS_FAMILY.search(elf.named(PTXAS_NOTE)) else ""
    if elf.flags & 0x8 or COMPAT_A.match(elf.named(b".nv.compat")):
        suffix = "a"
    return f"sm_{elf.flags >> 8 & 0xFF}{suffix}"


def tells_family(elf: Elf) -> bool:
    """Whether a cubin would say that it is a family's: CUDA 12 writes no note, and a tool may have stripped it."""
    return elf.abi != CUBIN_ABI_CUDA_12 and bool(elf.named(PTXAS_NOTE))


def cubins_in(buffer: Buffer, start: int, end: int) -> Iterator[Codes]:
    """The cubins of a byte range that lie there bare, without a fatbin around them; a cubin ends with its headers.

    A header whose sections are not there is a template that the library completes when it runs (libcupti), not code.
    """
    broken = 0
    while match := CUBIN.search(buffer, start, end):
        at = match.start()
        start = at + 64
        try:
            size = cubin_size(buffer, at)
            yield {cubin_code(Elf(buffer[at : at + size])): 1}
        except (DamagedError, struct.error):
            broken += 1
            if broken > BROKEN:
                raise DamagedError(f"more than {BROKEN} cubins without sections") from None
        else:
            start = at + max(size, 64)


def cubin_size(buffer: Buffer, at: int) -> int:
    """The bytes of a cubin up to the end of its tables of headers; raises DamagedError, struct.error."""
    phoff, shoff, phnum, shnum = struct.unpack_from("<QQ8xHxxH", buffer, at + 32)
    size = max(phoff + 56 * phnum, shoff + 64 * shnum)
    if at + size > len(buffer):
        raise DamagedError(f"the cubin at {at:#x} ends after the file")
    return int(size)
