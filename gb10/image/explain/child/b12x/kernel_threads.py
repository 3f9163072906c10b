"""How many threads a block of a compiled kernel can start with on a GB10, by the registers and bounds in its file."""

import math
import struct
from collections.abc import Iterator

from gb10.inside.scan.elf import ELF_MAGIC, EM_CUDA, Elf

MOST = 1024
REGISTERS = 16384
"""Of each of a unit's four parts, which share a block's warps."""
PARTS, WARP, STEP = 4, 32, 256
"""``STEP``: registers that a warp gets at once."""
COUNT, BOUND, REQUIRED = 0x2F, 0x05, 0x10
"""Attributes of a kernel: registers of a thread; threads of a block at most, or exactly, in three dimensions."""
SIZED = 4
"""An attribute's format: its value follows, and its size stands before. The others have their value there."""


def most(content: bytes) -> int:
    """The most threads with which all kernels of an object file can start; raises ValueError when it does not say."""
    found = [number for part in _cubins(content) for number in _limits(Elf(part))]
    if not found:
        raise ValueError("the file does not say how many registers its kernels take")
    return min(MOST, *found)


def _cubins(content: bytes) -> Iterator[bytes]:
    at = content.find(ELF_MAGIC)
    while at >= 0:
        if int.from_bytes(content[at + 18 : at + 20], "little") == EM_CUDA:
            yield content[at:]
        at = content.find(ELF_MAGIC, at + 1)


def _limits(cubin: Elf) -> Iterator[int]:
    """Of each kernel: the limit by its registers, and the limit by its author."""
    for section in cubin.sections:
        name = cubin.string(cubin.names + section[0])
        if name == ".nv.info" or name.startswith(".nv.info."):
            for kind, value in _attributes(cubin.buffer[section[4] : section[4] + section[5]]):
                if kind == COUNT:
                    yield by_registers(struct.unpack("<II", value)[1])
                elif kind in (BOUND, REQUIRED):
                    yield math.prod(struct.unpack("<III", value))


def _attributes(content: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 4 <= len(content):
        form, kind, value = struct.unpack_from("<BBH", content, at)
        at += 4
        if form == SIZED:
            yield kind, content[at : at + value]
            at += value


def by_registers(count: int) -> int:
    """Threads of a block for which a unit has registers, when each takes ``count``."""
    warp = max(STEP, math.ceil(count * WARP / STEP) * STEP)
    return REGISTERS // warp * PARTS * WARP
