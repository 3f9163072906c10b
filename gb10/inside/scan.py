"""What GPU code lies under a root: every ELF, fatbin and cubin, as JSON. Stdlib only: runs in a build stage as it is.

``python3 scan.py ROOT > scan.json``. Layouts: the ELF specification, and what nvcc 12.9 and 13.0 are seen to emit,
held to cuobjdump by the tests. Payloads are never read: only what the loader maps is searched, and a fatbin is
stepped over once its headers are read. Static archives are not looked into: nothing loads them.
"""

import argparse
import contextlib
import json
import mmap
import os
import re
import struct
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

SCHEMA = "gb10/scan/v1"
ELF_MAGIC, LITTLE_64, FATBIN_MAGIC = b"\x7fELF", b"\x02\x01", b"\x50\xed\x55\xba"
EM_CUDA, CUBIN_ABI_CUDA_12 = 190, 7
MACHINES = {3: "i386", 40: "arm", 62: "x86_64", 183: "aarch64", EM_CUDA: "cuda", 243: "riscv64"}
ET_REL, PT_LOAD, PT_DYNAMIC, SHT_NOBITS, SHF_ALLOC = 1, 1, 2, 8, 2
DT_NEEDED, DT_STRTAB, DT_SONAME, DT_VERNEED, DT_VERNEEDNUM = 1, 5, 14, 0x6FFFFFFE, 0x6FFFFFFF
LIBC_VERSION = re.compile(r"(GLIBC|GLIBCXX)_([0-9]+(?:\.[0-9]+)*)")
CODES = {1: "compute", 2: "sm", 8: "lto"}
FATBIN_A, FATBIN_F, FATBIN_ENTRY_MIN, FATBIN_ENTRY_VERSION = 0x100000, 0x200000, 48, 0x101
CUBIN = re.compile(rb"\x7fELF\x02\x01\x01[\x33\x41].{10}\xbe\0", re.DOTALL)
# CUDA 13 writes the ``a`` of a cubin as attribute 9 of .nv.compat; before it come only attributes of four bytes.
COMPAT_A = re.compile(rb"(?:[\x01-\x03](?!\x09)...)*\x02\x09\x01", re.DOTALL)
PTXAS_FAMILY = re.compile(rb"-arch[ =]sm_[0-9]+f\b")
Buffer = bytes | mmap.mmap
Codes = dict[str, int]


class DamagedError(Exception):
    """A file contradicts itself: a header points past its end, an entry does not fit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Unit:
    """The holdings of one fatbin (one translation unit) or bare cubin, and how many of the file are alike."""

    codes: Codes
    count: int


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


@dataclass(frozen=True, kw_only=True, slots=True)
class Scan:
    """All binaries under one root, sorted by path, which is relative to the root."""

    root: str
    binaries: tuple[Binary, ...]

    def to_json(self) -> str:
        """The document, deterministic: same tree, same text."""
        return json.dumps({"schema": SCHEMA, **asdict(self)}, indent=1, sort_keys=True)


def scan_tree(root: Path) -> Scan:
    """Every binary under a directory, symlinks not followed; or the one file that ``root`` names."""
    if not root.is_dir():
        return Scan(root=str(root), binaries=(scan_file(root, root.name),))
    found = (scan_file(path, os.path.relpath(path, root)) for path in _binaries_under(str(root)))
    return Scan(root=str(root), binaries=tuple(sorted(found, key=lambda binary: binary.path)))


def _binaries_under(folder: str) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    yield from _binaries_under(entry.path)
                elif entry.is_file(follow_symlinks=False) and is_binary(entry.path):
                    yield entry.path
    except PermissionError:
        yield folder


def is_binary(path: str | Path) -> bool:
    """Whether a file starts like an ELF or a fatbin; one that may not be opened counts, so that it is reported."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except PermissionError:
        return True
    try:
        return os.read(handle, 4) in (ELF_MAGIC, FATBIN_MAGIC)
    finally:
        os.close(handle)


def scan_file(path: str | Path, name: str) -> Binary:
    """One file, reported as ``name``."""
    try:
        with Path(path).open("rb") as handle, mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as buffer:
            return scan_buffer(buffer, name)
    except (OSError, ValueError) as error:
        return Binary(path=name, kind="unreadable", size=os.lstat(path).st_size, error=str(error))


def scan_buffer(buffer: Buffer, name: str) -> Binary:
    """One binary that lies in memory."""
    try:
        if buffer[:4] == FATBIN_MAGIC:
            units = units_in(buffer, 0, len(buffer))
            return Binary(path=name, kind="fatbin", size=len(buffer), machine="cuda", units=alike(units))
        if buffer[4:6] != LITTLE_64:  # no GPU code since CUDA 9
            return Binary(path=name, kind="elf32", size=len(buffer))
        return Elf(buffer).binary(name)
    except (DamagedError, struct.error, UnicodeDecodeError, OverflowError) as error:
        return Binary(path=name, kind="damaged", size=len(buffer), error=str(error))


def alike(units: Sequence[Codes]) -> tuple[Unit, ...]:
    """Units with the same holdings as one, counted."""
    found = Counter(tuple(sorted(unit.items())) for unit in units)
    return tuple(Unit(codes=dict(codes), count=count) for codes, count in sorted(found.items()))


def units_in(buffer: Buffer, start: int, end: int) -> list[Codes]:
    """The fatbins of a byte range and, between them, the bare cubins; raises DamagedError."""
    units: list[Codes] = []
    while (at := buffer.find(FATBIN_MAGIC, start, end)) >= 0:
        if size := fatbin_size(buffer, at, end):
            units.append(fatbin_codes(buffer, at + 16, at + size))
        units += cubins_in(buffer, start, at)
        start = at + (size or len(FATBIN_MAGIC))
    return units + cubins_in(buffer, start, end)


def fatbin_size(buffer: Buffer, at: int, end: int) -> int:
    """A fatbin's size in bytes with its header; raises DamagedError.

    0 for the magic number as a constant of code: on x86-64 what follows it may look like a header, never like an entry.
    """
    if end - at < FATBIN_ENTRY_MIN:
        return 0
    version, header, size, entry = struct.unpack_from("<HHQ2xH", buffer, at + 4)
    if (version, header) != (1, 16) or (size and entry != FATBIN_ENTRY_VERSION):
        return 0
    if at + 16 + size > end:
        raise DamagedError(f"the fatbin at {at:#x} has {size} bytes, {end - at - 16} are left")
    return 16 + int(size)


def fatbin_codes(buffer: Buffer, at: int, end: int) -> Codes:
    """What one fatbin holds, from its entries' headers; raises DamagedError."""
    codes: Counter[str] = Counter()
    while at < end:
        kind, _, header, payload = struct.unpack_from("<HHIQ", buffer, at)
        if header < FATBIN_ENTRY_MIN or at + header + payload > end:
            raise DamagedError(f"the fatbin entry at {at:#x} does not fit: {header} + {payload} bytes, end {end:#x}")
        arch, flags = struct.unpack_from("<I8xQ", buffer, at + 28)
        suffix = "a" if flags & FATBIN_A else "f" if flags & FATBIN_F else ""
        codes[f"{CODES.get(kind, f'kind{kind}')}_{arch}{suffix}"] += 1
        at += header + payload
    return dict(codes)


def cubins_in(buffer: Buffer, start: int, end: int) -> list[Codes]:
    """The cubins of a byte range that lie there bare, without a fatbin around them; a cubin ends with its headers.

    A header whose sections are not there is a template that the library completes when it runs (libcupti), not code.
    """
    found: list[Codes] = []
    for at in [match.start() for match in CUBIN.finditer(buffer, start, end)]:
        phoff, shoff, phnum, shnum = struct.unpack_from("<QQ8xHxxH", buffer, at + 32)
        with contextlib.suppress(DamagedError, struct.error):
            found.append({Elf(buffer[at : at + max(phoff + 56 * phnum, shoff + 64 * shnum)]).cubin: 1})
    return found


def rows(buffer: Buffer, layout: str, at: int, count: int) -> list[tuple[int, ...]]:
    """The rows of a table in the file; raises struct.error."""
    return [struct.unpack_from(layout, buffer, at + struct.calcsize(layout) * index) for index in range(count)]


class Elf:
    """The headers of one 64-bit little-endian ELF image."""

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer
        self.type, self.machine = struct.unpack_from("<HH", buffer, 16)
        phoff, shoff, self.flags = struct.unpack_from("<QQI", buffer, 32)
        phnum, _, shnum, self.names_index = struct.unpack_from("<HHHH", buffer, 56)
        if shoff and not shnum:
            (shnum,) = struct.unpack_from("<Q", buffer, shoff + 32)
        self.segments = rows(buffer, "<IIQQQQQQ", phoff, phnum)
        self.sections = rows(buffer, "<IIQQQQIIQQ", shoff, shnum)

    def binary(self, name: str) -> Binary:
        """All that is asked of one ELF; raises DamagedError or struct.error."""
        if self.machine == EM_CUDA:
            kind, units = "cubin", [{self.cubin: 1}]
        else:
            kind, units = "elf", [unit for start, end in self.loaded for unit in units_in(self.buffer, start, end)]
        needed, soname, versions = self.dynamic()
        return Binary(
            path=name,
            kind=kind,
            size=len(self.buffer),
            machine=MACHINES.get(self.machine, "other"),
            soname=soname,
            needed=needed,
            versions=versions,
            units=alike(units),
        )

    @property
    def loaded(self) -> list[tuple[int, int]]:
        """The byte ranges that a loader maps (segments) or a linker takes (an object's sections)."""
        ranges = [(part[2], part[2] + part[5]) for part in self.segments if part[0] == PT_LOAD and part[5]]
        if self.type == ET_REL:
            taken = (part for part in self.sections if part[2] & SHF_ALLOC and part[1] != SHT_NOBITS)
            ranges = [(part[4], part[4] + part[5]) for part in taken]
        if any(end > len(self.buffer) for _, end in ranges):
            raise DamagedError(f"{max(ranges)[1]:#x} bytes are mapped, the file ends at {len(self.buffer):#x}")
        return ranges

    @property
    def cubin(self) -> str:
        """``sm_120a``: number and ``a`` as each ABI of cubins writes them; ``f`` is told by ptxas' own note alone."""
        if self.buffer[8] == CUBIN_ABI_CUDA_12:
            return f"sm_{self.flags & 0xFF}{'a' if self.flags & 0x800 else ''}"
        suffix = "f" if PTXAS_FAMILY.search(self.section(b".note.nv.tkinfo")) else ""
        if self.flags & 0x8 or COMPAT_A.match(self.section(b".nv.compat")):
            suffix = "a"
        return f"sm_{self.flags >> 8 & 0xFF}{suffix}"

    def section(self, name: bytes) -> bytes:
        """The bytes of a section, none when it is absent; raises DamagedError."""
        if self.names_index >= len(self.sections):
            raise DamagedError("no section holds the names of the sections")
        names = self.sections[self.names_index][4]
        found = [part for part in self.sections if self.string(names + part[0]) == name]
        return self.buffer[found[0][4] : found[0][4] + found[0][5]] if found else b""

    def string(self, at: int) -> bytes:
        """The zero-terminated string at an offset; raises DamagedError."""
        if (end := self.buffer.find(b"\0", at)) >= 0:
            return self.buffer[at:end]
        raise DamagedError(f"the string at {at:#x} has no end")

    def dynamic(self) -> tuple[tuple[str, ...], str, dict[str, str]]:
        """NEEDED, SONAME and the newest GLIBC and GLIBCXX versions asked for; empty for a static one."""
        ranges = [range(part[2], part[2] + part[5], 16) for part in self.segments if part[0] == PT_DYNAMIC]
        entries = [struct.unpack_from("<QQ", self.buffer, at) for offsets in ranges for at in offsets]
        tags = dict(reversed(entries))
        if DT_STRTAB not in tags:
            return (), "", {}
        strings = self.offset(tags[DT_STRTAB])
        needed = tuple(self.string(strings + value).decode() for tag, value in entries if tag == DT_NEEDED)
        soname = self.string(strings + tags[DT_SONAME]).decode() if DT_SONAME in tags else ""
        return needed, soname, self.versions(tags, strings)

    def versions(self, tags: dict[int, int], strings: int) -> dict[str, str]:
        """The newest version of each C library symbol set that is asked for."""
        found: set[tuple[str, tuple[int, ...]]] = set()
        at = self.offset(tags[DT_VERNEED]) if DT_VERNEED in tags else 0
        for _ in range(tags.get(DT_VERNEEDNUM, 0)):
            count, aux, following = struct.unpack_from("<2xH4xII", self.buffer, at)
            aux += at
            for _ in range(count):
                name, step = struct.unpack_from("<8xII", self.buffer, aux)
                if match := LIBC_VERSION.fullmatch(self.string(strings + name).decode()):
                    found.add((match[1], tuple(map(int, match[2].split(".")))))
                aux += step
            at += following
            if not following:
                break
        return {library: ".".join(map(str, version)) for library, version in sorted(found)}

    def offset(self, address: int) -> int:
        """Where in the file an address is mapped from; raises DamagedError."""
        for part in self.segments:
            if part[0] == PT_LOAD and part[3] <= address < part[3] + part[5]:
                return part[2] + address - part[3]
        raise DamagedError(f"address {address:#x} lies in no segment")


def main() -> None:
    """``scan.py ROOT``: the document on stdout."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=Path)
    sys.stdout.write(scan_tree(parser.parse_args().root).to_json() + "\n")


if __name__ == "__main__":
    main()
