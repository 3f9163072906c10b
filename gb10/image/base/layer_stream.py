"""A layer as it streams by: gzip, zstd or a plain tar; hashed on both sides, bounded, nothing kept on a disk."""

import hashlib
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from gb10.errors import VerifyError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

__all__ = ("LONGEST", "LayerStream", "Member", "damaged", "inside", "members", "zstd")

PIECE: Final = 1 << 16
"""Bytes of packed content at a time."""
CHUNK: Final = 1 << 20
"""Bytes of unpacked content at a time: a bomb swells no further in memory."""
GZIP: Final = b"\x1f\x8b"
ZSTD: Final = b"\x28\xb5\x2f\xfd"
SKIPPED: Final = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18")
"""The begin of a frame of zstd that holds no content."""
WINDOW: Final = 27
"""The largest window of zstd, as a power of two: 128 MiB, as engines take it."""
BLOCK: Final = 512
SPECIAL: Final = 1 << 20
"""Bytes of an extended header: Go's reader of tars, and so Docker, takes no larger one."""
MOST_HEADERS: Final = 4 << 20
"""Headers of a layer, extended ones and those of no file included: four for each of the files that it may have."""
MOST_RECORDS: Final = 1 << 12
"""Records of a pax header."""
READ: Final = frozenset((b"GNU.sparse.name", b"path", b"linkpath", b"size"))
"""The records that are read; a value of another one, such as a file's capabilities, may be no text."""
MOST_SPECIAL: Final = 256 << 20
"""Bytes of all extended headers of a layer."""
LONGEST: Final = 4096
PART: Final = 255
"""Bytes of a path, and of one of its parts, that a file system takes."""
LARGEST: Final = 1 << 50
HINT: Final = "a container engine would not unpack it, either: check the name, or ask its author"
FILES: Final = (b"0", b"\0", b"7")
KINDS: Final = {b"1": "h", b"2": "l", b"5": "d", b"3": "s", b"4": "s", b"6": "s"}
EXTENDED: Final = (b"x", b"g", b"L", b"K")
OCTAL: Final = re.compile(rb"[0-7]{0,16}")
RECORD: Final = re.compile(rb"([0-9]{1,7}) ([^=]*)=")
LINE_FEED: Final = ord("\n")


def damaged(what: str) -> VerifyError:
    """The error for a layer that is not what an engine would take."""
    return VerifyError(what, hint=HINT)


Check = Callable[[], object]


class LayerStream:
    """The unpacked bytes of a layer, read from front to back."""

    def __init__(self, blocks: Iterator[bytes], most: int, *, hashed: bool = True, check: Check | None = None) -> None:
        """``most``: how many unpacked bytes are read at most. ``hashed``: whether the digests are wanted.

        ``check`` is called for each MiB at least, and raises to end the reading: a small layer may be a large one.
        """
        self.most, self.hashed, self._check = most, hashed, check
        self.size = self.unpacked = 0
        self.headers = self.special = 0
        self._packed, self._content = hashlib.sha256(), hashlib.sha256()
        self._plain = _unpacked(self._counted(blocks))
        self._rest = memoryview(b"")

    @property
    def digest(self) -> str:
        """Of the bytes that travelled."""
        return f"sha256:{self._packed.hexdigest()}"

    @property
    def diff_id(self) -> str:
        """Of the unpacked bytes."""
        return f"sha256:{self._content.hexdigest()}"

    @property
    def at(self) -> int:
        """How many unpacked bytes were read."""
        return self.unpacked - len(self._rest)

    def read(self, count: int) -> bytes:
        """So many bytes, or fewer at the end."""
        parts = []
        while count and self._fill():
            part = self._rest[:count]
            self._rest = self._rest[len(part) :]
            count -= len(part)
            parts.append(part)
        return b"".join(parts)

    def skip(self, count: int) -> None:
        """Go on by so many bytes. Raises VerifyError at the end."""
        while count and self._fill():
            step = min(count, len(self._rest))
            self._rest = self._rest[step:]
            count -= step
        if count:
            raise damaged("a layer ends in the middle of a file")

    def drain(self) -> None:
        """Go to the end: what is behind a tar's end is hashed, too."""
        while self._fill():
            self._rest = memoryview(b"")

    def _fill(self) -> bool:
        """Whether there is more."""
        while not self._rest:
            block = next(self._plain, None)
            if block is None:
                return False
            if self._check:
                self._check()
            self.unpacked += len(block)
            if self.unpacked > self.most:
                raise damaged(f"a layer unpacks to more than {self.most >> 30} GiB")
            if self.hashed:
                self._content.update(block)
            self._rest = memoryview(block)
        return True

    def _counted(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        for block in blocks:
            self.size += len(block)
            if self.hashed:
                self._packed.update(block)
            yield block


def _unpacked(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """The content, by the first bytes, as engines decide it: no media type is believed."""
    head = b""
    for block in blocks:
        head += block
        if len(head) >= len(ZSTD):
            break
    pieces = (one[at : at + PIECE] for one in _after(head, blocks) for at in range(0, len(one), PIECE))
    if head.startswith(GZIP):
        return _inflated(pieces)
    return _unframed(pieces) if head.startswith(ZSTD) or SKIPPED.match(head) else pieces


def _after(head: bytes, blocks: Iterator[bytes]) -> Iterator[bytes]:
    yield head
    yield from blocks


def _inflated(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """gzip, of several members, too; zeros behind the last one are padding."""
    engine = zlib.decompressobj(31)
    try:
        for piece in pieces:
            rest = piece
            while rest:
                if engine.eof:
                    if not rest.strip(b"\0"):
                        break
                    engine = zlib.decompressobj(31)
                if block := engine.decompress(rest, CHUNK):
                    yield block
                rest = engine.unused_data if engine.eof else engine.unconsumed_tail
        while not engine.eof:
            block = engine.decompress(b"", CHUNK)
            if not block:
                raise damaged("a layer is cut off: its gzip has no end")
            yield block
    except zlib.error as error:
        raise damaged(f"a layer's gzip is damaged: {error}") from error


def _unframed(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """zstd, of several frames, too."""
    options: dict[int, int] = {zstd.DecompressionParameter.window_log_max: WINDOW}
    engine, begun = zstd.ZstdDecompressor(options=options), False
    try:
        for piece in pieces:
            rest = piece
            while rest or not (engine.needs_input or engine.eof):
                if engine.eof:
                    engine = zstd.ZstdDecompressor(options=options)
                begun = True
                if block := engine.decompress(rest, CHUNK):
                    yield block
                rest = engine.unused_data if engine.eof else b""
        if begun and not engine.eof:
            raise damaged("a layer is cut off: its zstd has no end")
    except zstd.ZstdError as error:
        raise damaged(f"a layer's zstd is damaged: {error}") from error


@dataclass(frozen=True, slots=True)
class Member:
    """A file of a layer. ``kind``: ``f`` a file, ``x`` a program, ``d`` a folder, ``l`` a symbolic link, ``h`` a hard
    link, ``s`` a device or a pipe. ``size`` in bytes: its content is next in the stream, of a file alone.
    """

    kind: str
    path: str
    """Relative to the root, without ``.`` and ``..``."""
    target: str
    """Of a link, as its author wrote it."""
    size: int


@dataclass(slots=True)
class _Ahead:
    """What extended headers say of the file behind them."""

    path: str = ""
    target: str = ""
    size: int | None = None


def members(stream: LayerStream) -> Iterator[Member]:
    """The files in their order; who wants a content reads it before the next one. Raises VerifyError.

    ustar, GNU's long names and sparse files, pax. A path out of the root is refused, as by engines.
    """
    ahead = _Ahead()
    while block := _header(stream):
        if not block.strip(b"\0"):
            if stream.read(BLOCK).strip(b"\0"):
                raise damaged("a layer has a header behind its end")
            return
        if _number(block[148:156]) != sum(block) - sum(block[148:156]) + 8 * ord(" "):
            raise damaged("a layer is no tar, or damaged: the checksum of a header is wrong")
        flag, size = block[156:157], _number(block[124:136])
        if flag in EXTENDED:
            _look_ahead(ahead, flag, _special(stream, size))
            continue
        if flag == b"S" and block[482]:
            while _header(stream, at_end=False)[504]:
                pass
        path = ahead.path or _name(block)
        kind = _kind(flag, path, _number(block[100:108]))
        if kind not in "fx":
            size = 0
        elif ahead.size is not None:
            size = ahead.size
        target = ahead.target or _text(block[157:257])
        if len(target) > LONGEST:
            raise damaged(f"a layer has a link to a path of {len(target):,} characters")
        ahead = _Ahead()
        begin = stream.at
        yield Member(kind, inside(path), target if kind in "lh" else "", size)
        stream.skip(size + -size % BLOCK - (stream.at - begin))


def _header(stream: LayerStream, *, at_end: bool = True) -> bytes:
    """The next block, which is a header; nothing ``at_end`` of the layer, where that may be here."""
    stream.headers += 1
    if stream.headers > MOST_HEADERS:
        raise damaged(f"a layer has more than {MOST_HEADERS:,} headers")
    block = stream.read(BLOCK)
    if len(block) < BLOCK and (block or not at_end):
        raise damaged("a layer ends in the middle of a header")
    return block


def _special(stream: LayerStream, size: int) -> bytes:
    stream.special += size
    if stream.special > MOST_SPECIAL:
        raise damaged(f"a layer has more than {MOST_SPECIAL >> 20} MiB of extended headers")
    if size > SPECIAL:
        raise damaged(f"a layer has an extended header of {size:,} bytes")
    text = stream.read(size)
    if len(text) < size:
        raise damaged("a layer ends in the middle of a header")
    stream.skip(-size % BLOCK)
    return text


def _look_ahead(ahead: _Ahead, flag: bytes, text: bytes) -> None:
    """An extended header; a global one (``g``) names no file."""
    match flag:
        case b"L":
            ahead.path = _text(text)
        case b"K":
            ahead.target = _text(text)
        case b"x":
            given = _pax(text)
            ahead.path = given.get("GNU.sparse.name") or given.get("path") or ahead.path
            ahead.target = given.get("linkpath") or ahead.target
            ahead.size = _decimal(given["size"]) if "size" in given else ahead.size


def _pax(text: bytes) -> dict[str, str]:
    """The records of a pax header: ``LENGTH KEY=VALUE`` and a line feed each."""
    found, at, count = dict[str, str](), 0, 0
    while at < len(text):
        match = RECORD.match(text, at)
        end = at + int(match[1]) if match else 0
        if not match or not match.end() < end <= len(text) or text[end - 1] != LINE_FEED:
            raise damaged("a layer has a pax header that cannot be read")
        count += 1
        if count > MOST_RECORDS:
            raise damaged(f"a layer has a pax header of more than {MOST_RECORDS:,} records")
        if match[2] in READ:
            found[match[2].decode()] = _whole(text[match.end() : end - 1])
        at = end
    return found


def _whole(value: bytes) -> str:
    if b"\0" in value:
        raise damaged("a layer has a pax header with a zero byte in a value")
    return value.decode(errors="surrogateescape")


def _decimal(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,16}", text) or int(text) > LARGEST:
        raise damaged(f"a layer has a file of {text[:40]!r} bytes")
    return int(text)


def _kind(flag: bytes, path: str, mode: int) -> str:
    if flag in FILES and path.endswith("/"):
        return "d"
    if flag in FILES or flag == b"S":
        return "x" if mode & 0o111 else "f"
    if flag not in KINDS:
        raise damaged(f"a layer has a file of an unknown kind, {flag!r}")
    return KINDS[flag]


def _name(block: bytes) -> str:
    name, prefix = _text(block[:100]), _text(block[345:500]) if block[257:263] == b"ustar\0" else ""
    return f"{prefix}/{name}" if prefix else name


def _number(field: bytes) -> int:
    """Octal digits, or GNU's binary form for what is larger."""
    if field[0] & 0x80:
        number = int.from_bytes(field, "big") & ~(0x80 << 8 * (len(field) - 1))
        if field[0] & 0x40 or number > LARGEST:
            raise damaged("a layer has a header with a number that no file has")
        return number
    text = field.strip(b" \0")
    if not OCTAL.fullmatch(text):
        raise damaged("a layer has a header with a number that cannot be read")
    return int(text or b"0", 8)


def _text(field: bytes) -> str:
    return field.partition(b"\0")[0].decode(errors="surrogateescape")


def inside(path: str) -> str:
    """A path relative to the root, without ``.``; empty for the root itself. Raises VerifyError for one out of it."""
    if len(path) > LONGEST:
        raise damaged(f"a layer has a path of {len(path):,} characters")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise damaged(f"a layer has a file out of the image: {ascii(path)[:200]}")
    if any(len(part) > PART for part in parts):
        raise damaged(f"a layer has a name that no file system takes: {ascii(path)[:200]}")
    return "/".join(parts)
