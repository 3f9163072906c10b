"""Source archives and wheels, read where they lie; nothing is unpacked, and no archive fills the memory."""

import bz2
import gzip
import io
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from gb10.errors import PatchError

DAMAGED: Final = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    RuntimeError,
    ValueError,
    OSError,
    struct.error,
)
MOST_BYTES: Final = 1 << 29
MOST_FILES: Final = 100_000
BLOCK: Final = 1 << 16
ZIPPED: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""What unpacks in blocks of a known size; in zipfile the others do not."""
OPENERS: Final[Mapping[bytes, Callable[[Path], io.BufferedIOBase]]] = {
    b"\x1f\x8b": gzip.GzipFile,
    b"BZ": bz2.BZ2File,
    b"\xfd7": lzma.LZMAFile,
}
"""By the first two bytes of an archive; a plain tar starts with a name."""


def check_bytes(size: int, where: str) -> None:
    """Raise PatchError for more than a source tree has."""
    if size > MOST_BYTES:
        raise _too_much(f"more than {MOST_BYTES >> 20} MiB", where)


def _too_much(what: str, where: str) -> PatchError:
    return PatchError(
        f"{Path(where).name} holds {what}",
        where=where,
        hint="a source tree has far less: fetch or pack it again",
    )


class _Bounded(io.BufferedIOBase):
    """An archive as it unpacks, up to a limit: tarfile reads a header as long as the header says."""

    def __init__(self, inner: io.BufferedIOBase, where: str) -> None:
        self.inner, self.where = inner, where

    def tell(self) -> int:
        """How many bytes are unpacked up to here."""
        return self.inner.tell()

    def read(self, size: int | None = -1, /) -> bytes:
        """The next bytes; raises PatchError past the limit."""
        left = MOST_BYTES + 1 - self.inner.tell()
        found = self.inner.read(left if size is None or size < 0 else min(size, left))
        check_bytes(self.inner.tell(), self.where)
        return found

    def seek(self, place: int, whence: int = 0, /) -> int:
        """Raises PatchError past the limit, before it unpacks."""
        check_bytes(place if whence == 0 else 0, self.where)
        return self.inner.seek(place, whence)


def _unpacked(path: Path) -> io.BufferedIOBase:
    with path.open("rb") as file:
        opener = OPENERS.get(file.read(2))
    return opener(path) if opener else path.open("rb")


class Sdist:
    """A source archive without its top folder; read once, from start to end."""

    installed = False

    def __init__(self, path: Path) -> None:
        self.files: dict[str, bytes] = {}
        total = 0
        with _unpacked(path) as unpacked, tarfile.open(fileobj=_Bounded(unpacked, str(path)), mode="r:") as archive:
            for number, member in enumerate(archive):
                name = _below_top(member.name)
                total += member.size  # of a sparse file with its holes
                check_bytes(total, str(path))
                if number == MOST_FILES:
                    raise _too_much(f"more than {MOST_FILES:,} files", str(path))
                if member.islnk() and name:
                    self.files[name] = self._linked(member, path)
                elif member.isfile() and name:
                    handle = archive.extractfile(member)
                    self.files[name] = handle.read() if handle else b""
            while unpacked.read(1 << 20):  # to the end: there gzip compares its checksum
                check_bytes(unpacked.tell(), str(path))

    def _linked(self, member: tarfile.TarInfo, path: Path) -> bytes:
        """The file that a hard link names: it stands before the link."""
        target = _below_top(member.linkname)
        if target not in self.files:
            raise PatchError(
                f"{member.name} is a hard link to {member.linkname}, which is no file before it",
                where=str(path),
                hint="fetch or pack the archive anew",
            )
        return self.files[target]

    def paths(self) -> tuple[str, ...]:
        """Every file, sorted."""
        return tuple(sorted(self.files))

    def read(self, path: str) -> bytes | None:
        """A file's bytes; None when there is none."""
        return self.files.get(path)


class Wheel:
    """A wheel's files."""

    installed = True

    def __init__(self, path: Path) -> None:
        self.archive = zipfile.ZipFile(path)
        self.names = frozenset(name for name in self.archive.namelist() if not name.endswith("/"))

    def paths(self) -> tuple[str, ...]:
        """Every file, sorted."""
        return tuple(sorted(self.names))

    def read(self, path: str) -> bytes | None:
        """A file's bytes; None when there is none. Raises PatchError when they are damaged."""
        if path not in self.names:
            return None
        info = self.archive.getinfo(path)
        check_bytes(info.file_size, f"{self.archive.filename}/{path}")
        try:
            return self._content(info)
        except DAMAGED as error:
            raise PatchError(
                f"{path} cannot be read: {error}",
                where=self.archive.filename,
                hint="the archive is damaged: fetch or build it anew",
            ) from error

    def _content(self, info: zipfile.ZipInfo) -> bytes:
        """A file in blocks: for a whole one, zipfile takes as much memory as the archive claims."""
        if info.compress_type not in ZIPPED:
            raise zipfile.BadZipFile("its compression is neither `stored` nor `deflated`")
        with self.archive.open(info) as member:
            return b"".join(iter(lambda: member.read(BLOCK), b""))


class Repacked(Wheel):
    """A source archive, packed again as a zip."""

    installed = False


def _below_top(name: str) -> str:
    """A path of a source archive without the top folder."""
    return name.removeprefix("./").partition("/")[2]
