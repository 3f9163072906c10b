"""Headers of safetensors files, and their index: names and bytes of tensors, without reading a weight. Pure.

A file begins with the length of its header in 8 bytes, little-endian; the header is JSON (safetensors 0.4). Its
author is unknown: lengths and places are checked.
"""

import json
from collections.abc import Mapping
from math import prod
from typing import Any, Final

from gb10.errors import UsageError

PREFIX: Final = 8
LARGEST_HEADER: Final = 100_000_000
"""Bytes: the library's own limit."""
LARGEST_FILE: Final = 1 << 46
MOST: Final = 2_000_000
"""Tensors of one model."""
BITS: Final[Mapping[str, int]] = {
    **dict.fromkeys(("F64", "I64", "U64", "C64"), 64),
    **dict.fromkeys(("F32", "I32", "U32"), 32),
    **dict.fromkeys(("BF16", "F16", "I16", "U16"), 16),
    **dict.fromkeys(("F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "I8", "U8", "BOOL"), 8),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    "F4": 4,
}
INDEX: Final = "model.safetensors.index.json"


def header_length(prefix: bytes, file: str) -> int:
    """Bytes of the header, from the first 8 bytes of a file; raises UsageError when it cannot be one."""
    length = int.from_bytes(prefix, "little")
    if len(prefix) != PREFIX or not 2 <= length <= LARGEST_HEADER:
        raise UsageError(f"{file} is not a safetensors file", hint="download the file again")
    return length


def header_sizes(text: bytes, file: str, size: int | None = None) -> dict[str, int]:
    """Bytes by tensor. ``size`` are the bytes behind the header, when they are known. Raises UsageError."""
    content = json_object(text, file)
    sizes = entry_sizes({name: entry for name, entry in content.items() if name != "__metadata__"}, file)
    total = sum(sizes.values())
    if size is not None and total > size:
        where = f"its tensors have {total} bytes, the file has {size}"
        raise UsageError(f"{file} is not whole", where=where, hint="download the file again")
    return sizes


def entry_sizes(entries: Mapping[str, object], file: str) -> dict[str, int]:
    """Bytes by tensor of a header's entries. Raises UsageError."""
    sizes = {name: _tensor(entry, name, file) for name, entry in entries.items()}
    if len(sizes) > MOST or sum(sizes.values()) > LARGEST_FILE:
        raise UsageError(f"{file} has more tensors, or larger ones, than a model can have", hint="do not use it")
    return sizes


def _tensor(entry: object, name: str, file: str) -> int:
    """Bytes of a tensor, where its type and shape agree with its place in the file."""
    fields = entry if isinstance(entry, dict) else {}
    shape, place, bits = fields.get("shape"), fields.get("data_offsets"), BITS.get(str(fields.get("dtype")))
    whole = all(_is_count(one) for part in (shape, place) if isinstance(part, list) for one in part)
    if bits is None or not (isinstance(shape, list) and isinstance(place, list)) or not whole or len(place) != 2:
        raise UsageError(f"{file} has a tensor that is none: {name[:80]!r}", hint="download the file again")
    size = place[1] - place[0]
    if size < 0 or len(shape) > 16 or -(-prod(shape) * bits // 8) != size:
        raise UsageError(f"{file}: the shape of {name[:80]!r} does not fit its place", hint="download the file again")
    return int(size)


def _is_count(one: object) -> bool:
    return isinstance(one, int) and not isinstance(one, bool) and 0 <= one <= LARGEST_FILE


def index_of(text: bytes, file: str) -> tuple[int | None, tuple[str, ...], frozenset[str]]:
    """Total bytes (None when the index does not say), names of tensors, and files. Raises UsageError."""
    content = json_object(text, file)
    names, metadata = content.get("weight_map"), content.get("metadata")
    if not isinstance(names, dict) or not all(isinstance(value, str) for value in names.values()):
        raise UsageError(f"{file} is not the index of a model", hint=f"name a folder, or {INDEX}")
    files = frozenset(names.values())
    strange = next((one for one in files if "/" in one or "\\" in one or one in ("", ".", "..")), None)
    if strange is not None or len(names) > MOST:
        raise UsageError(f"{file} names a file that is not beside it: {str(strange)[:80]!r}", hint="do not use it")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    return (total if _is_count(total) and total else None), tuple(names), files


def json_object(text: bytes, file: str) -> dict[str, Any]:
    """A file's JSON object; raises UsageError."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{file} is not JSON", where=str(error)[:200], hint="download the file again") from error
    if not isinstance(content, dict):
        raise UsageError(f"{file} is not a JSON object", hint="download the file again")
    return content
