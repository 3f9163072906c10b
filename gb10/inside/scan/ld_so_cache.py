"""The loader's cache, /etc/ld.so.cache: which file a library's name stands for. The format is glibc's 1.1."""

import struct
from pathlib import Path

CACHE = "etc/ld.so.cache"
MAGIC = b"glibc-ld.so.cache1.1"
LARGEST, ENTRIES, NAME = 16 << 20, 1 << 16, 1 << 12


def read_cache(path: Path) -> dict[str, tuple[str, ...]]:
    """The files of each name, in the loader's order; nothing of a file that is no such cache, or a damaged one."""
    if path.stat().st_size > LARGEST:
        return {}
    content = path.read_bytes()
    start = content.find(MAGIC)
    if start < 0 or len(content) < start + 48:
        return {}
    (count,) = struct.unpack_from("<I", content, start + len(MAGIC))
    table = content[start + 48 : start + 48 + 24 * min(count, ENTRIES)]
    found: dict[str, tuple[str, ...]] = {}
    for _, key, value, _, _ in struct.iter_unpack("<iIIIQ", table[: len(table) // 24 * 24]):
        name, file = (_string(content, start + at) for at in (key, value))
        if name and file:
            found[name] = (*found.get(name, ()), file)
    return found


def _string(content: bytes, at: int) -> str:
    end = content.find(b"\0", at, at + NAME)
    return content[at:end].decode(errors="replace") if end >= 0 else ""
