"""One ELF, fatbin or cubin: what it is for, what it needs, the GPU code that it holds.

Only what the loader maps is searched. Static archives are not looked into: nothing loads them.
"""

import mmap
import os
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from gb10.inside.scan.elf import ELF_MAGIC, EM_CUDA, LITTLE_64, Buffer, DamagedError, Elf
from gb10.inside.scan.fatbin import (
    FATBIN_HEADER,
    FATBIN_MAGIC,
    Codes,
    Entry,
    cubin_code,
    entries,
    fatbin_size,
    units_in,
)

PTX = "compute_"
MACHINES = {3: "i386", 40: "arm", 62: "x86_64", 183: "aarch64", EM_CUDA: "cuda", 243: "riscv64"}
Holdings = tuple[tuple[str, int], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Unit:
    """The holdings of one fatbin (one translation unit) or bare cubin, and how many of the file are alike."""

    codes: Codes
    count: int
    ptx: int = 0
    """Bytes of PTX in all of them, unpacked: what the driver compiles, where it finds no SASS to load."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Binary:
    """One ELF, cubin or fatbin: size in bytes, what it needs, what it holds; or ``error``, why that is unknown."""

    path: str
    kind: str
    size: int
    machine: str = ""
    soname: str = ""
    needed: tuple[str, ...] = ()
    versions: dict[str, str] = field(default_factory=dict)
    units: tuple[Unit, ...] = ()
    error: str = ""

    @property
    def codes(self) -> Codes:
        """How many of each: ``sm_120f`` (SASS), ``compute_80`` (PTX), ``lto_90`` (link-time IR)."""
        total: Counter[str] = Counter()
        for unit in self.units:
            total.update({code: count * unit.count for code, count in unit.codes.items()})
        return dict(sorted(total.items()))


def is_binary(path: str | Path) -> bool:
    """Whether a file starts like an ELF or a fatbin; True for one that cannot be opened, so that it is reported."""
    try:
        with open(path, "rb", opener=at_once) as handle:
            return handle.read(4) in (ELF_MAGIC, FATBIN_MAGIC)
    except OSError:
        return True


def at_once(path: str, flags: int) -> int:
    """Open a file without waiting: opening a pipe without a writer would block for ever."""
    return os.open(path, flags | os.O_NONBLOCK)


def scan_file(path: str | Path, name: str) -> Binary:
    """One file, reported as ``name``."""
    try:
        with mapped(path) as buffer:
            return scan_buffer(buffer, name)
    except (OSError, ValueError) as error:
        return Binary(path=name, kind="unreadable", size=0, error=str(error))


@contextmanager
def mapped(path: str | Path) -> Iterator[mmap.mmap]:
    """The bytes of a file; raises OSError, and ValueError for an empty one."""
    with (
        open(path, "rb", opener=at_once) as handle,
        mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as buffer,
    ):
        yield buffer


def scan_buffer(buffer: Buffer, name: str) -> Binary:
    """One binary that lies in memory."""
    size = len(buffer)
    try:
        if buffer[:4] == FATBIN_MAGIC:
            units = alike(units_in(buffer, [(0, size)]), buffer, [(0, size)])
            return Binary(path=name, kind="fatbin", size=size, machine="cuda", units=units)
        if buffer[4:6] != LITTLE_64:  # no GPU code since CUDA 9
            return Binary(path=name, kind="elf32", size=size)
        return scan_elf(Elf(buffer), name)
    except (DamagedError, struct.error, UnicodeDecodeError, OverflowError) as error:
        return Binary(path=name, kind="damaged", size=size, error=str(error))


def scan_elf(elf: Elf, name: str) -> Binary:
    """One ELF: a cubin, or a library, program or object; raises DamagedError or struct.error."""
    elf.check()
    cubin = elf.machine == EM_CUDA
    units = alike([{cubin_code(elf): 1}] if cubin else units_in(elf.buffer, elf.loaded), elf.buffer, elf.loaded)
    needed, soname, versions = elf.dynamic()
    return Binary(
        path=name,
        kind="cubin" if cubin else "elf",
        size=len(elf.buffer),
        machine=MACHINES.get(elf.machine, "other"),
        soname=soname,
        needed=needed,
        versions=versions,
        units=units,
    )


def alike(units: Iterable[Codes], buffer: Buffer, ranges: Sequence[tuple[int, int]]) -> tuple[Unit, ...]:
    """Units with the same holdings as one, counted, and the PTX in them measured."""
    found = Counter(tuple(sorted(unit.items())) for unit in units)
    ptx: Counter[Holdings] = Counter()
    if any(code.startswith(PTX) for codes in found for code, _ in codes):
        for codes, size in ptx_in(buffer, ranges):
            ptx[codes] += size
    return tuple(Unit(codes=dict(codes), count=count, ptx=ptx[codes]) for codes, count in sorted(found.items()))


def ptx_in(buffer: Buffer, ranges: Sequence[tuple[int, int]]) -> Iterator[tuple[Holdings, int]]:
    """The holdings of each fatbin that is whole, and its bytes of PTX as they are before compression."""
    for start, end in ranges:
        at = start
        while (at := buffer.find(FATBIN_MAGIC, at, end)) >= 0:
            size = fatbin_size(buffer, at, end)
            if size:
                found = list(entries(buffer, at + FATBIN_HEADER, at + size))
                unpacked = (unpacked_size(buffer, one) for one in found if one.code.startswith(PTX))
                yield tuple(sorted(Counter(one.code for one in found).items())), sum(unpacked)
            at += size or len(FATBIN_MAGIC)


def unpacked_size(buffer: Buffer, entry: Entry) -> int:
    """The bytes of a payload before compression; its header has 0 for one that is not compressed."""
    (size,) = struct.unpack_from("<Q", buffer, entry.at + 56) if entry.start - entry.at >= 64 else (0,)
    return int(size) or entry.end - entry.start
