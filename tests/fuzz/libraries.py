"""Shared libraries with fatbins, as layers are slimmed."""

import random
import struct
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path

from gb10.image.plan.catalog import ROOT
from gb10.inside.scan.elf import DamagedError
from gb10.inside.slim.gpu_code import thinned
from gb10.inside.slim.symbols import stripped


@lru_cache
def parts() -> tuple[bytes, bytes]:
    """A library of nvcc's, as if it were of aarch64: what it holds, and its table of sections."""
    data = (ROOT / "tests/unit/data/scan/libk.so").read_bytes()
    (table,) = struct.unpack_from("<Q", data, 40)
    return data[:18] + b"\xb7\0" + data[20:table], data[table:]


def some_library(rng: random.Random) -> bytes:
    """The library with other bytes, most of them in its headers and tables; or a part of it."""
    changed = [bytearray(part) for part in parts()]
    for _ in range(rng.randrange(1, 6)):
        part = rng.choice(changed)
        at = rng.randrange(min(len(part), 4096)) if rng.randrange(3) else rng.randrange(len(part))
        fresh = rng.choice((b"\xff" * 8, bytes(8), rng.randbytes(8), rng.randbytes(1)))
        part[at : at + len(fresh)] = fresh
    whole = b"".join(changed)
    return whole if rng.randrange(4) else whole[: rng.randrange(64, len(whole))]


def slim_library(data: bytes, _: Path) -> None:
    """Both changes of a library: damaged is a result."""
    for change in (stripped, partial(thinned, capability="12.1", hollow=True)):
        with suppress(DamagedError):
            change(data)
