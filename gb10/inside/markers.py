"""Which marker instructions the kernels of a library hold: a kernel can compile, and load, and be a stub that traps.

    markers.py LIBRARY   (JSON on stdout: kernel -> instruction -> count)

An instruction of SASS has 16 bytes since Volta, its opcode in the lowest 12 bits. The opcodes are those that cuobjdump
names on 12.x; the tests hold the counts to cuobjdump's. Code must lie in its fatbin as it is (nvcc --no-compress).
"""

import importlib
import json
import struct
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

scan: Any = importlib.import_module("scan")  # lies beside us
OPCODES = {0x27A: "QMMA", 0x47A: "QMMA.SF", 0x47F: "OMMA", 0x5B4: "UTMALDG", 0x95C: "BPT", 0x387: "STL", 0x983: "LDL"}
ELF_KIND, PROGRAM = 2, 1  # of a fatbin entry; of a section
WORD = struct.Struct("<I12x")


class CompressedError(Exception):
    """Code that cannot be read without the decompressor of its fatbin."""


def kernels_of(buffer: bytes) -> dict[str, Counter[str]]:
    """Each kernel of a library, object or cubin with its marker instructions; raises CompressedError."""
    found: dict[str, Counter[str]] = {}
    for cubin in cubins_of(buffer):
        elf = scan.Elf(cubin)
        names = elf.sections[elf.names_index][4]
        for section in elf.sections:
            name = elf.string(names + section[0]).decode()
            if name.startswith(".text.") and section[1] == PROGRAM:
                found[name.removeprefix(".text.")] = counted(cubin[section[4] : section[4] + section[5]])
    return found


def counted(code: bytes) -> Counter[str]:
    """The marker instructions of one kernel."""
    words = (word for (word,) in WORD.iter_unpack(code[: len(code) // 16 * 16]))
    return Counter(OPCODES[word & 0xFFF] for word in words if word & 0xFFF in OPCODES)


def cubins_of(buffer: bytes) -> Iterator[bytes]:
    """The cubin itself, or every cubin in the fatbins of a library; raises CompressedError."""
    if scan.Elf(buffer).machine == scan.EM_CUDA:
        yield buffer
        return
    at = 0
    while (at := buffer.find(scan.FATBIN_MAGIC, at)) >= 0:
        size = scan.fatbin_size(buffer, at, len(buffer))
        yield from entries(buffer, at + 16, at + size) if size else ()
        at += size or len(scan.FATBIN_MAGIC)


def entries(buffer: bytes, at: int, end: int) -> Iterator[bytes]:
    """The cubins of one fatbin."""
    while at < end:
        kind, _, header, payload = struct.unpack_from("<HHIQ", buffer, at)
        if header < scan.FATBIN_ENTRY_MIN or at + header + payload > end:
            raise scan.DamagedError(f"the fatbin entry at {at:#x} does not fit: {header} + {payload} bytes")
        if kind == ELF_KIND:
            cubin = buffer[at + header : at + header + payload]
            if not cubin.startswith(scan.ELF_MAGIC):
                raise CompressedError(f"the code at {at:#x} is compressed: compile with nvcc --no-compress")
            yield cubin
        at += header + payload


def missing(kernels: dict[str, Counter[str]], wanted: dict[str, list[str]]) -> list[str]:
    """What is not as wanted: ``{"GemmUniversal": ["QMMA"]}`` asks of every such kernel for a QMMA and for no trap."""
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
