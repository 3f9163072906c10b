"""Mutations, each decided by a seed: of bytes, of JSON values, of trees of files."""

import bz2
import copy
import gzip
import io
import json
import lzma
import random
import stat
import struct
import tarfile
import zipfile
from collections.abc import Sequence
from typing import Any, Final

NAMES: Final = (
    "run.sh",
    "mod.yaml",
    "a",
    "a/b",
    "a/run.sh",
    "../x",
    "/etc/x",
    "a/../../x",
    ".",
    "./",
    "",
    "a//b",
    "a\nb",
    "a\x1b[31mb",
    "x" * 300,
    "d/" * 600 + "e",
    "a\\b",
    "C:/x",
    "\u202e",
    "vllm/a.py",
    "vllm/_C.abi3.so",
    "x-1.dist-info/RECORD",
    "x-1.dist-info/METADATA",
    ".git/config",
    "__pycache__/a.pyc",
)
VALUES: Final[tuple[Any, ...]] = (
    None,
    True,
    0,
    -1,
    2**63,
    -(2**70),
    1.5,
    "",
    "x",
    "a" * 3000,
    "../..",
    "/",
    "\0",
    "a\nb",
    "\ud800",
    "file:///dev/zero",
    "https://[",
    "(" * 200,
    "[]",
    "1" * 400,
    "==",
    "a==1; python_version > '3'",
    [],
    [[]],
    {},
    {"": ""},
    [1],
    ["a", "a"],
    {"a": {"a": {}}},
)


def of_bytes(rng: random.Random, corpus: Sequence[bytes], tokens: Sequence[bytes]) -> bytes:
    """One of the corpus, changed in a few places."""
    made = bytearray(rng.choice(corpus))
    for _ in range(rng.choice((1, 1, 2, 3, 8))):
        at = rng.randrange(len(made) + 1)
        length = rng.choice((1, 2, 4, 16, 200))
        match rng.randrange(8):
            case 0:
                made[at : at + 1] = bytes([rng.randrange(256)])
            case 1:
                del made[at : at + length]
            case 2:
                made[at:at] = made[at : at + length] * rng.choice((1, 2, 50))
            case 3:
                made[at:at] = rng.choice(tokens)
            case 4:
                made[at : at + length] = rng.choice(tokens) * rng.choice((1, 1, 3, 400))
            case 5:
                made[at : at + 4] = struct.pack("<I", rng.choice((0, 1, 0x7FFFFFFF, 0xFFFFFFFF, 0x10000, len(made))))
            case 6:
                made[at : at + 8] = struct.pack("<Q", rng.choice((0, 1 << 63, (1 << 64) - 1, 1 << 32, len(made))))
            case _:
                other = rng.choice(corpus)
                start = rng.randrange(len(other) + 1)
                made[at : at + length] = other[start : start + rng.choice((4, 40, 400))]
    if not rng.randrange(20):
        del made[rng.randrange(len(made) + 1) :]
    return bytes(made)


def of_value(rng: random.Random, value: Any) -> Any:  # noqa: ANN401 - JSON
    """A JSON value with one to three of its parts replaced by another type, taken out or doubled."""
    whole = {"": value}
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        holder, key = _somewhere(rng, whole)
        match rng.randrange(6):
            case 0 if len(holder) > 1:
                del holder[key]
            case 1 if isinstance(holder, dict) and holder is not whole:
                holder[rng.choice(NAMES)] = holder.pop(key)
            case 2 if isinstance(holder, list):
                holder.append(copy.deepcopy(holder[key]))
            case _:
                holder[key] = copy.deepcopy(rng.choice(VALUES))  # what is changed below must not change VALUES
    return whole.get("")


def _somewhere(rng: random.Random, whole: dict[str, Any]) -> tuple[Any, Any]:
    """A place in a value: a list or an object and one of its keys; far down as likely as at the top."""
    holder: Any = whole
    key: Any = ""
    depth = rng.randrange(1, 8)
    for _ in range(depth):
        below = holder[key]
        if not isinstance(below, dict | list) or not below:
            break
        holder, key = below, rng.choice(list(below) if isinstance(below, dict) else range(len(below)))
    return holder, key


def of_json(rng: random.Random, corpus: Sequence[bytes], tokens: Sequence[bytes]) -> bytes:
    """A JSON document with other values, or with other bytes."""
    if rng.randrange(3):
        return json.dumps(of_value(rng, json.loads(rng.choice(corpus)))).encode()
    return of_bytes(rng, corpus, tokens)


def content_of(rng: random.Random, contents: Sequence[bytes]) -> bytes:
    """A file's bytes: real ones, few, or many that pack well."""
    return rng.choice((*contents, b"", b"x", b"\0" * rng.choice((10, 1 << 16, 1 << 22))))


def of_zip(rng: random.Random, contents: Sequence[bytes], first: str) -> bytes:
    """A zip with odd names, kinds and methods; then perhaps with other bytes in its headers."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as archive:
        for name in dict.fromkeys((first, *rng.choices(NAMES, k=rng.randrange(6)))):
            info = zipfile.ZipInfo(name)
            info.compress_type = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2))
            kind = rng.choice((stat.S_IFREG, stat.S_IFREG, stat.S_IFLNK, stat.S_IFIFO, stat.S_IFDIR, 0))
            info.external_attr = (kind | rng.choice((0o644, 0o755, 0o4777))) << 16
            archive.writestr(info, content_of(rng, contents))
    raw = bytearray(whole.getvalue())
    for _ in range(rng.choice((0, 1, 2))):
        start = rng.choice([at for at in range(len(raw) - 4) if raw[at : at + 2] == b"PK"][:400])
        at = start + rng.randrange(4, 46)
        raw[at : at + 2] = struct.pack("<H", rng.choice((0, 1, 8, 9, 12, 14, 99, 0xFFFF, 0x0800)))
    return bytes(raw)


def of_tar(rng: random.Random, contents: Sequence[bytes]) -> bytes:
    """A source archive with odd names, links and sizes, packed or not; perhaps damaged."""
    whole = io.BytesIO()
    pack = rng.choice((bytes, gzip.compress, bz2.compress, lzma.compress))
    with tarfile.open(fileobj=whole, mode="w") as archive:
        for name in ("a-1/a.py", *rng.choices(NAMES, k=rng.randrange(6))):
            info = tarfile.TarInfo(rng.choice(("a-1/", "", "./a-1/")) + name)
            info.type = rng.choice(
                (tarfile.REGTYPE, tarfile.REGTYPE, tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.FIFOTYPE)
            )
            info.linkname = rng.choice(("a-1/a.py", "/etc/passwd", "../x", "", "a-1/b"))
            content = content_of(rng, contents) if info.type == tarfile.REGTYPE else b""
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    raw = whole.getvalue()
    return pack(raw if rng.randrange(2) else of_bytes(rng, (raw,), (b"\0", b"7777777")))
