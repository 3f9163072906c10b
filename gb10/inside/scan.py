"""What GPU code lies under a root: every ELF, fatbin and cubin, as JSON.

``python3 scan.py ROOT > scan.json`` in a build stage, where scan.py is an archive of this module and of those that it
imports; standard library only. Only what the loader maps is searched. Static archives are not looked into: nothing
loads them.
"""

import argparse
import json
import mmap
import os
import stat
import struct
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from gb10.inside.elf import ELF_MAGIC, EM_CUDA, LITTLE_64, Buffer, DamagedError, Elf
from gb10.inside.fatbin import FATBIN_MAGIC, Codes, cubin_code, units_in

SCHEMA = "gb10/scan/v1"
MACHINES = {3: "i386", 40: "arm", 62: "x86_64", 183: "aarch64", EM_CUDA: "cuda", 243: "riscv64"}


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
    binaries = []
    for path, found in regular_files(str(root)):
        name = os.path.relpath(path, root)
        if isinstance(found, OSError):
            binaries.append(Binary(path=name, kind="unreadable", size=0, error=str(found.strerror)))
        elif is_binary(path):
            binaries.append(scan_file(path, name))
    return Scan(root=str(root), binaries=tuple(sorted(binaries, key=lambda binary: binary.path)))


def regular_files(root: str, *, links: bool = False) -> Iterator[tuple[str, os.stat_result | OSError]]:
    """Every regular file, and link if wanted, below a folder; a folder that cannot be read, with the error."""
    folders = [root]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    found = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(found.st_mode):
                        folders.append(entry.path)
                    elif stat.S_ISREG(found.st_mode) or (links and stat.S_ISLNK(found.st_mode)):
                        yield entry.path, found
        except OSError as error:
            yield folder, error


def is_binary(path: str | Path) -> bool:
    """Whether a file starts like an ELF or a fatbin; one that may not be opened counts, so that it is reported."""
    try:
        with open(path, "rb", opener=_at_once) as handle:
            return handle.read(4) in (ELF_MAGIC, FATBIN_MAGIC)
    except OSError:
        return True


def _at_once(path: str, flags: int) -> int:
    """Open a file; a pipe that nobody writes to would wait for ever."""
    return os.open(path, flags | os.O_NONBLOCK)


def scan_file(path: str | Path, name: str) -> Binary:
    """One file, reported as ``name``."""
    try:
        with (
            open(path, "rb", opener=_at_once) as handle,
            mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as buffer,
        ):
            return scan_buffer(buffer, name)
    except (OSError, ValueError) as error:
        return Binary(path=name, kind="unreadable", size=0, error=str(error))


def scan_buffer(buffer: Buffer, name: str) -> Binary:
    """One binary that lies in memory."""
    size = len(buffer)
    try:
        if buffer[:4] == FATBIN_MAGIC:
            units = alike(units_in(buffer, [(0, size)]))
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
    units = alike([{cubin_code(elf): 1}] if cubin else units_in(elf.buffer, elf.loaded))
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


def alike(units: Iterable[Codes]) -> tuple[Unit, ...]:
    """Units with the same holdings as one, counted."""
    found = Counter(tuple(sorted(unit.items())) for unit in units)
    return tuple(Unit(codes=dict(codes), count=count) for codes, count in sorted(found.items()))


def main() -> None:
    """``scan.py ROOT``: the document on stdout."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=Path)
    sys.stdout.write(scan_tree(parser.parse_args().root).to_json() + "\n")


if __name__ == "__main__":
    main()
