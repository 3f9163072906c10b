"""Inside a build stage: remove symbol and debug tables from a shared library. What a loader maps keeps every byte.

The loader, dlopen and dlsym read the dynamic table (.dynsym), which lies in a segment. .symtab, .strtab and .debug_*
lie in none: only debuggers and profilers read them.
"""

import struct

from gb10.inside.scan.elf import ELF_MAGIC, LITTLE_64, SHF_ALLOC, DamagedError, Elf, Row
from gb10.inside.slim.layout import laid_out

SHT_SYMTAB, SHT_RELA, SHT_REL = 2, 4, 9
DEBUG = (b".debug_", b".zdebug_", b".gdb_index", b".stab")


def stripped(data: bytes) -> bytes:
    """The library without these tables, or as it is when it has none; raises DamagedError."""
    if data[:6] != ELF_MAGIC + LITTLE_64:
        raise DamagedError("no 64-bit little-endian ELF file")
    try:
        doomed = removable(Elf(data))
        found = laid_out(data, doomed=doomed) if doomed else data
    except (struct.error, OverflowError) as error:
        raise DamagedError(str(error)) from error
    return found if len(found) < len(data) else data


def removable(elf: Elf) -> set[int]:
    """The indices of symbol and debug tables, their strings and relocations; none of them is mapped."""
    sections = elf.sections
    loose = {index for index, part in enumerate(sections) if index and not part[2] & SHF_ALLOC}
    (names,) = struct.unpack_from("<H", elf.buffer, 62)
    doomed = {index for index in loose if sections[index][1] == SHT_SYMTAB or is_debug(elf, sections[index])}
    strings = {sections[index][6] for index in doomed if sections[index][1] == SHT_SYMTAB}
    doomed |= strings & loose - {names}
    return doomed | {
        index for index in loose if sections[index][1] in (SHT_RELA, SHT_REL) and sections[index][6] in doomed
    }


def is_debug(elf: Elf, part: Row) -> bool:
    """Whether a section's name is one of debug information."""
    at = elf.names + part[0]
    return any(elf.buffer[at : at + len(name)] == name for name in DEBUG)
