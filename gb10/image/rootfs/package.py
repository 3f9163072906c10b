"""One .deb file read without dpkg: an ar archive that holds the control files and the files to install."""

import gzip
import io
import lzma
import shutil
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from gb10.errors import FetchError
from gb10.sources.debian.stanza import parse

MAGIC = b"!<arch>\n"
HEADER = 60
COMPRESSION_HINT = "Debian's own archive uses xz: lock the package from there"


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """The control fields of a package; ``members`` are its control files but ``control`` itself."""

    path: Path
    fields: dict[str, str]
    members: dict[str, tuple[int, bytes]]
    """Name to mode and content."""

    @property
    def name(self) -> str:
        return self.fields["Package"]

    @property
    def info_name(self) -> str:
        """The stem of its files in dpkg's database."""
        same = self.fields.get("Multi-Arch") == "same"
        return f"{self.name}:{self.fields['Architecture']}" if same else self.name


def read_package(path: Path) -> Package:
    """The control part of a package; raises FetchError when the file is no .deb."""
    with path.open("rb") as deb, _member(path, deb, "control.tar") as plain, tarfile.open(fileobj=plain) as tar:
        members: dict[str, tuple[int, bytes]] = {}
        for info in tar:
            content = tar.extractfile(info)
            if content is not None:
                members[info.name.removeprefix("./")] = (info.mode, content.read())
    control = members.pop("control")[1].decode()
    return Package(path=path, fields=next(parse(control)), members=members)


def unpack_data(path: Path, into: Path) -> Path:
    """Decompress the package's data.tar into the file ``into``, in constant memory."""
    with path.open("rb") as deb, _member(path, deb, "data.tar") as plain, into.open("wb") as out:
        shutil.copyfileobj(plain, out, 1 << 20)
    return into


def _member(path: Path, deb: IO[bytes], stem: str) -> IO[bytes]:
    """The decompressed stream of the ar member that starts with ``stem``."""
    if deb.read(len(MAGIC)) != MAGIC:
        raise FetchError(f"{path.name} is not a Debian package")
    while len(header := deb.read(HEADER)) == HEADER:
        name = header[:16].decode("ascii").strip().rstrip("/")
        size = int(header[48:58])
        if name.startswith(stem):
            return _decompressed(path, name.removeprefix(stem), _Window(deb, size))
        deb.seek(size + size % 2, io.SEEK_CUR)
    raise FetchError(f"{path.name} holds no {stem}: it is cut off, or not a Debian package")


def _decompressed(path: Path, suffix: str, window: "_Window") -> IO[bytes]:
    match suffix:
        case ".xz":
            return lzma.LZMAFile(window)
        case ".gz":
            return io.BufferedReader(gzip.GzipFile(fileobj=window))
        case "":
            return window
    raise FetchError(f"{path.name} is compressed as {suffix[1:]}, which gb10 does not read", hint=COMPRESSION_HINT)


class _Window(io.BytesIO):
    """The next ``size`` bytes of a file; packages are small compressed, so they are held."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        super().__init__(file.read(size))
