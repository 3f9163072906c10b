"""With how many threads a block of a compiled kernel can start on a GB10, as its file says: registers and bounds."""

import math
import struct

from elf import ELF_MAGIC, EM_CUDA, Elf

MOST = 1024
REGISTERS = 16384
"""Of each of a unit's four parts, which share a block's warps."""
PARTS, WARP, STEP = 4, 32, 256
"""``STEP``: registers that a warp gets at once."""
COUNT, BOUND, REQUIRED = 0x2F, 0x05, 0x10
"""Attributes of a kernel: registers of a thread; threads of a block at most, or exactly, in three dimensions."""
SIZED = 4
"""An attribute's format: its value follows, and its size stands before. The others have their value there."""


def most(content):
    """The most threads for every kernel of an object file; raises ValueError when it does not tell."""
    found = [number for part in _cubins(content) for number in _limits(Elf(part))]
    if not found:
        raise ValueError("the file does not say how many registers its kernels take")
    return min(MOST, *found)


def _cubins(content):
    at = content.find(ELF_MAGIC)
    while at >= 0:
        if int.from_bytes(content[at + 18 : at + 20], "little") == EM_CUDA:
            yield content[at:]
        at = content.find(ELF_MAGIC, at + 1)


def _limits(cubin):
    """Of each kernel: by its registers, and by what its author wrote."""
    for section in cubin.sections:
        name = cubin.string(cubin.names + section[0])
        if name == ".nv.info" or name.startswith(".nv.info."):
            for kind, value in _attributes(cubin.buffer[section[4] : section[4] + section[5]]):
                if kind == COUNT:
                    yield by_registers(struct.unpack("<II", value)[1])
                elif kind in (BOUND, REQUIRED):
                    yield math.prod(struct.unpack("<III", value))


def _attributes(content):
    at = 0
    while at + 4 <= len(content):
        form, kind, value = struct.unpack_from("<BBH", content, at)
        at += 4
        if form == SIZED:
            yield kind, content[at : at + value]
            at += value


def by_registers(count):
    """Threads of a block for which a unit has registers, ``count`` for each."""
    warp = max(STEP, math.ceil(count * WARP / STEP) * STEP)
    return REGISTERS // warp * PARTS * WARP
