"""The dynamic linker's cache, written for a foreign architecture: ldconfig itself reads only its own machine's ELF.

Format: glibc's ``struct cache_file_new`` (sysdeps/generic/dl-cache.h), little endian, without extensions.
"""

import posixpath
import re
import struct
import tarfile
from dataclasses import dataclass

from gb10.image.rootfs.root_tar import Tree

CACHE = "etc/ld.so.cache"
MAGIC = b"glibc-ld.so.cache1.1"
HEADER = struct.Struct("<20sIIB3xI12x")
ENTRY = struct.Struct("<iIIIQ")
LITTLE_ENDIAN = 2
MACHINES = {62: 0x0303, 183: 0x0A03}
"""ELF machine (x86-64, aarch64) to the cache's flags: that architecture's 64-bit ELF for libc 6."""
SHARED_OBJECT = 3
PT_LOAD, PT_DYNAMIC = 1, 2
DT_STRTAB, DT_SONAME = 5, 14
LIBRARY = re.compile(r"(lib|ld-)[^/]*\.so[^/]*")


@dataclass(frozen=True, slots=True)
class Library:
    """A library name that the linker can look up, and its path."""

    soname: str
    path: str
    flags: int


def write_linker_cache(tree: Tree) -> None:
    """ld.so.cache for the directories of ld.so.conf and glibc's own, as ldconfig finds them."""
    found: dict[str, Library] = {}
    for directory in _directories(tree):
        for library in _libraries(tree, directory):
            found.setdefault(library.soname, library)
    tree.file(CACHE, render_cache(sorted(found.values(), key=lambda one: version_key(one.soname), reverse=True)))


def render_cache(libraries: list[Library]) -> bytes:
    """The file's bytes; ``libraries`` must be sorted as the linker's binary search expects."""
    strings = bytearray()
    entries = bytearray()
    start = HEADER.size + ENTRY.size * len(libraries)
    for one in libraries:
        key = start + len(strings)
        strings += f"{one.soname}\0".encode()
        entries += ENTRY.pack(one.flags, key, start + len(strings), 0, 0)
        strings += f"{one.path}\0".encode()
    return HEADER.pack(MAGIC, len(libraries), len(strings), LITTLE_ENDIAN, 0) + bytes(entries) + bytes(strings)


def version_key(name: str) -> list[tuple[int, int]]:
    """The linker's order: runs of digits count as numbers and stand after every other character."""
    parts = re.findall(r"\d+|\D", name)
    return [(1, int(part)) if part.isdigit() else (0, ord(part)) for part in parts]


def soname(elf: bytes) -> tuple[int, str] | None:
    """(machine, DT_SONAME or "") of a 64-bit little-endian shared object, else None."""
    if elf[:6] != b"\x7fELF\x02\x01" or struct.unpack_from("<H", elf, 16)[0] != SHARED_OBJECT:
        return None
    machine, offset, size, count = *struct.unpack_from("<H", elf, 18), *struct.unpack_from("<32xQ14xHH", elf)
    segments = [struct.unpack_from("<IIQQQQQQ", elf, offset + size * index) for index in range(count)]
    dynamic = next((segment for segment in segments if segment[0] == PT_DYNAMIC), None)
    if dynamic is None:
        return machine, ""
    tags = dict(struct.iter_unpack("<qQ", elf[dynamic[2] : dynamic[2] + dynamic[5] // 16 * 16]))
    if DT_SONAME not in tags:
        return machine, ""
    load = next(s for s in segments if s[0] == PT_LOAD and s[3] <= tags[DT_STRTAB] < s[3] + s[5])
    begin = tags[DT_STRTAB] - load[3] + load[2] + tags[DT_SONAME]
    return machine, elf[begin : elf.index(b"\0", begin)].decode()


def _directories(tree: Tree) -> list[str]:
    """The folders of ld.so.conf.d, then the linker's defaults; folders that are one by a link come once."""
    named = []
    for path in tree.below("etc/ld.so.conf.d/"):
        if path.endswith(".conf"):
            named += [line for line in tree.read(path).decode().splitlines() if line.startswith("/")]
    seen: set[str] = set()
    kept: list[str] = []
    for directory in [*named, "/lib", "/usr/lib"]:
        real = tree.resolve(directory.lstrip("/"))
        if real in tree.entries and real not in seen:
            seen.add(real)
            kept.append(directory)
    return kept


def _libraries(tree: Tree, directory: str) -> list[Library]:
    real = tree.resolve(directory.lstrip("/"))
    found = []
    for path in tree.below(f"{real}/"):
        name = path.removeprefix(f"{real}/")
        target = tree.resolve(path)
        if not LIBRARY.fullmatch(name) or target not in tree.entries or tree.entries[target].type != tarfile.REGTYPE:
            continue
        elf = soname(tree.read(target))
        if elf and elf[0] in MACHINES:
            is_link = tree.entries[path].type == tarfile.SYMTYPE
            found.append(Library(_cache_name(name, elf[1], is_link), posixpath.join(directory, name), MACHINES[elf[0]]))
    return [_preferred(one, found) for one in found]


def _cache_name(name: str, soname: str, is_link: bool) -> str:
    """A development link keeps its own name; anything else is known by its soname."""
    development = is_link and name.endswith(".so") and soname.startswith(name)
    return name if development or not soname else soname


def _preferred(one: Library, found: list[Library]) -> Library:
    """Among files of one soname, the one with that file name."""
    exact = (other for other in found if other.soname == one.soname and posixpath.basename(other.path) == one.soname)
    return next(exact, one)
