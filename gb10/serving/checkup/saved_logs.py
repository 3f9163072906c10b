"""Logs that the user names: a file, or stdin, of any size, read once in blocks."""

import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from gb10.errors import UsageError
from gb10.serving.checkup.collected import TAIL, scanner_for
from gb10.serving.doctor.image_record import ImageRecord
from gb10.serving.doctor.log_scan import BLOCK, Scan, last_lines_of, whole_lines

MOST: Final = 8 << 30
"""Bytes of a log."""
STDIN: Final = "-"


@dataclass(frozen=True, kw_only=True, slots=True)
class SavedLog:
    """A log, scanned. ``name`` is the node's, or the file's; ``tail`` its end, for a bundle."""

    name: str
    scan: Scan
    tail: bytes


def read_log(text: str, image: ImageRecord | None, on_bytes: Callable[[int], None] = lambda count: None) -> SavedLog:
    """A log by ``[NAME=]FILE``; ``-`` is stdin. ``on_bytes`` gets how many were read so far. Raises UsageError."""
    name, path = _parts(text)
    with _opened(path) as stream:
        scanner, tail, bytes_read = scanner_for(image), b"", 0
        for block in whole_lines(_blocks(stream)):
            scanner.feed(block)
            tail = last_lines_of(tail + block, TAIL)
            bytes_read += len(block)
            on_bytes(bytes_read)
    return SavedLog(name=name or label(path), scan=scanner.scan(), tail=tail)


def log_size(text: str) -> int:
    """Bytes of a log; 0 where that is not known."""
    try:
        return Path(_parts(text)[1]).stat().st_size
    except OSError:
        return 0


def _parts(text: str) -> tuple[str, str]:
    """The name, if there is one, and the path."""
    name, sign, path = text.partition("=")
    return (name, path) if sign and name and "/" not in name else ("", text)


def label(path: str) -> str:
    """What a log is called that has no name of its own."""
    return "stdin" if path == STDIN else Path(path).name


@contextmanager
def _opened(path: str) -> Iterator[BinaryIO]:
    if path == STDIN:
        yield sys.stdin.buffer
        return
    hint = "name a file, NODE=FILE, or - for stdin"
    try:
        number = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        raise UsageError(f"cannot read {path}", where=error.strerror or str(error), hint=hint) from error
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise UsageError(f"{path} is no plain file", hint=hint)
    with open(number, "rb") as stream:  # noqa: PTH123 - Path has no flags
        yield stream


def _blocks(stream: BinaryIO) -> Iterator[bytes]:
    left = MOST
    while left > 0 and (block := stream.read(min(BLOCK, left))):
        yield block
        left -= len(block)
