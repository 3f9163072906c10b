"""Which marker instructions the kernels of a library hold: a kernel can compile, and load, and be a stub that traps.

    markers.py LIBRARY   (JSON on stdout: kernel -> instruction -> count)

An instruction of SASS has 16 bytes since Volta, its opcode in the lowest 12 bits. The opcodes are those that cuobjdump
names on 12.x; the tests hold the counts to cuobjdump's. Code must lie in its fatbin as it is (nvcc --no-compress).
"""

import json
import struct
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from gb10.inside.scan.elf import ELF_MAGIC, EM_CUDA, Elf
from gb10.inside.scan.fatbin import CUBIN_KIND, FATBIN_MAGIC, entries, fatbin_size

OPCODES = {0x27A: "QMMA", 0x47A: "QMMA.SF", 0x47F: "OMMA", 0x5B4: "UTMALDG", 0x95C: "BPT", 0x387: "STL", 0x983: "LDL"}
PROGRAM = 1  # the type of a section
NAME = 1 << 16
WORD = struct.Struct("<I12x")


class CompressedError(Exception):
    """Code that cannot be read without the decompressor of its fatbin."""


def kernels_of(buffer: bytes) -> dict[str, Counter[str]]:
    """Each kernel of a library, object or cubin with its marker instructions; raises CompressedError."""
    found: dict[str, Counter[str]] = {}
    for cubin in cubins_of(buffer):
        elf = Elf(cubin)
        for section in elf.sections:
            name = elf.string(elf.names + section[0], NAME)
            if name.startswith(".text.") and section[1] == PROGRAM:
                found[name.removeprefix(".text.")] = count_markers(cubin[section[4] : section[4] + section[5]])
    return found


def count_markers(code: bytes) -> Counter[str]:
    """The marker instructions of one kernel."""
    words = (word for (word,) in WORD.iter_unpack(code[: len(code) // 16 * 16]))
    return Counter(OPCODES[word & 0xFFF] for word in words if word & 0xFFF in OPCODES)


def cubins_of(buffer: bytes) -> Iterator[bytes]:
    """The cubin itself, or every cubin in the fatbins of a library; raises CompressedError."""
    if Elf(buffer).machine == EM_CUDA:
        yield buffer
        return
    at = 0
    while (at := buffer.find(FATBIN_MAGIC, at)) >= 0:
        size = fatbin_size(buffer, at, len(buffer))
        yield from cubins_in_fatbin(buffer, at + 16, at + size) if size else ()
        at += size or len(FATBIN_MAGIC)


def cubins_in_fatbin(buffer: bytes, at: int, end: int) -> Iterator[bytes]:
    """The cubins of one fatbin; raises CompressedError."""
    for entry in entries(buffer, at, end):
        if entry.kind == CUBIN_KIND:
            cubin = buffer[entry.start : entry.end]
            if not cubin.startswith(ELF_MAGIC):
                raise CompressedError(f"the code at {entry.at:#x} is compressed: compile with nvcc --no-compress")
            yield cubin


def missing(kernels: dict[str, Counter[str]], wanted: dict[str, list[str]]) -> list[str]:
    """A line for each defect: ``{"GemmUniversal": ["QMMA"]}`` requires a QMMA and no trap in every such kernel."""
    wrong = []
    for part, instructions in wanted.items():
        named = {name: counts for name, counts in kernels.items() if part in name}
        wrong += [] if named else [f"no kernel is named {part}"]
        for name, counts in named.items():
            lacks = [instruction for instruction in instructions if not counts[instruction]]
            wrong += [f"{name[:100]}: no {', '.join(lacks)}: a stub, compiled for the wrong arch"] if lacks else []
            wrong += [f"{name[:100]}: {counts['BPT']} traps"] if counts["BPT"] and not lacks else []
    return wrong


if __name__ == "__main__":
    json.dump(kernels_of(Path(sys.argv[1]).read_bytes()), sys.stdout, indent=1)
