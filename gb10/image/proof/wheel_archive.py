"""The files of any wheel. A damaged, encrypted or endlessly unpacking wheel is refused."""

import lzma
import mmap
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gb10.errors import VerifyError
from gb10.inside.binary import Binary, scan_buffer
from gb10.inside.elf import ELF_MAGIC
from gb10.inside.fatbin import FATBIN_MAGIC
from gb10.inside.installed import DIST_INFO, TORCH_VERSION, Distribution, described

MEMBERS = 1 << 18
SMALL, RATIO = 64 << 20, 100
"""A wheel may unpack to the larger of SMALL bytes and RATIO times its size; real ones stay below 20 times."""
TEXT = 16 << 20
CHUNK = 1 << 20
ENCRYPTED = 0x1
UNREADABLE = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    OSError,
    NotImplementedError,  # a compression, or a version of zip, that Python does not know
    UnicodeDecodeError,
    struct.error,  # an extra field that is cut short
)


@contextmanager
def open_wheel(wheel: Path) -> Iterator[zipfile.ZipFile]:
    """The archive; raises VerifyError, also when reading from it fails later."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            members = archive.infolist()
            if len(members) > MEMBERS:
                raise VerifyError(f"{wheel} has {len(members)} files, the limit is {MEMBERS}")
            if any(member.flag_bits & ENCRYPTED for member in members):
                raise VerifyError(f"{wheel} is encrypted", hint="pip cannot install it either: take another wheel")
            yield archive
    except UNREADABLE as error:
        where = str(error) or type(error).__name__
        raise VerifyError(
            f"{wheel} is damaged or cannot be unpacked", where=where, hint="download or build it again"
        ) from error


def wheel_binaries(wheel: Path, prefix: str = "") -> Iterator[Binary]:
    """Every ELF and fatbin of a wheel, on disk one after another; each byte is checked against the archive's CRC."""
    left = max(SMALL, RATIO * wheel.stat().st_size)
    with open_wheel(wheel) as archive:
        for member in sorted(archive.infolist(), key=lambda member: member.filename):
            with archive.open(member) as packed:
                if packed.read(4) not in (ELF_MAGIC, FATBIN_MAGIC):
                    continue
            left -= member.file_size
            if left < 0:
                raise VerifyError(
                    f"{wheel} unpacks to more than {RATIO} times its size",
                    where=member.filename,
                    hint="a real wheel does not: download it again, from where you trust it",
                )
            yield _scan_member(archive, member, prefix + member.filename)


def wheel_distribution(wheel: Path, prefix: str = "") -> Distribution | None:
    """What a wheel says of itself; None when it holds no METADATA."""
    with open_wheel(wheel) as archive:
        names = [name for name in archive.namelist() if name.endswith(DIST_INFO) and name.count("/") == 1]
        if not names:
            return None
        there = {*archive.namelist()}
        metadata, tags, torch = (
            read_text(archive, name).decode(errors="replace") if name in there else ""
            for name in (names[0], names[0].replace("METADATA", "WHEEL"), TORCH_VERSION)
        )
        return described(prefix + names[0], metadata, tags, torch)


def _scan_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str) -> Binary:
    with tempfile.TemporaryFile() as unpacked, archive.open(member) as packed:
        while chunk := packed.read(CHUNK):
            unpacked.write(chunk)
        unpacked.flush()
        with mmap.mmap(unpacked.fileno(), 0, access=mmap.ACCESS_READ) as buffer:
            return scan_buffer(buffer, name)


def read_text(archive: zipfile.ZipFile, name: str) -> bytes:
    """A small file of a wheel; raises VerifyError for one that is larger than it says, or than any manifest."""
    with archive.open(name) as packed:
        content = packed.read(TEXT + 1)
    if len(content) > TEXT:
        raise VerifyError(f"{name} has more than {TEXT} bytes", where=str(archive.filename))
    return content
