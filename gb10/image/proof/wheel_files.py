"""The manifest of a wheel that was compiled here: which cubins each of its modules must hold."""

import json
import lzma
import mmap
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from gb10.errors import UsageError, VerifyError
from gb10.image.recipe.arch import parse_arch
from gb10.inside.scan.binary import Binary, scan_buffer
from gb10.inside.scan.elf import ELF_MAGIC
from gb10.inside.scan.fatbin import FATBIN_MAGIC
from gb10.inside.scan.installed import DIST_INFO, TORCH_VERSION, Distribution, described

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
        members = {*archive.namelist()}
        metadata, tags, torch = (
            read_text(archive, name).decode(errors="replace") if name in members else ""
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


MANIFEST = "manifest.json"
REBUILD = "build it again: ./build.py wheels --rebuild NAME"


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """A wheel's manifest in ``file``: its arch, each module's cubins (``sm_121f``), units left out and the reasons."""

    file: str
    arch: str
    modules: Mapping[str, Sequence[str]]
    left_out: Mapping[str, str] = field(default_factory=dict)


def declares(wheel: Path) -> bool:
    """Whether a wheel has a manifest: only wheels compiled here do, not grafts or upstream's wheels."""
    if not zipfile.is_zipfile(wheel):
        return False
    with open_wheel(wheel) as archive:
        return any(map(_is_manifest, archive.namelist()))


def read_manifest(wheel: Path, prefix: str = "") -> Manifest:
    """The manifest that the compile stage wrote. Raises VerifyError when it is missing or malformed.

    ``prefix`` begins the name of every file, as in a scan of the wheel's folder.
    """
    with open_wheel(wheel) as archive:
        names = [name for name in archive.namelist() if _is_manifest(name)]
        if not names:
            raise VerifyError(f"{wheel.name} does not declare what it holds", hint="only wheels compiled here do")
        text = read_text(archive, names[0])
    try:
        return _parsed(json.loads(text), prefix, names[0])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, UsageError) as error:
        raise VerifyError(f"the manifest of {wheel.name} is malformed", where=str(error), hint=REBUILD) from error


def _parsed(document: dict[str, Any], prefix: str, file: str) -> Manifest:
    """The values of a manifest; raises ValueError and the errors of a document of another shape."""
    package = file.partition("/")[0]
    modules = {
        prefix + _inside(entry.get("file", f"{package}/modules/{module}/{module}.so")): tuple(map(_sm, entry["cubins"]))
        for module, entry in document["modules"].items()
    }
    left_out = {str(name): str(why) for name, why in document.get("left-out", {}).items()}
    arch = _sm(document["arch"]) if "arch" in document else ""
    return Manifest(file=prefix + file, arch=arch, modules=modules, left_out=left_out)


def _inside(name: str) -> str:
    """The name of a file of the wheel; raises ValueError for one that leads out of it."""
    if not is_inside(name):
        raise ValueError(f"{name!r} is not a file of the wheel")
    return name


def is_inside(name: str) -> bool:
    """Whether a name stays below the folder that it is written to: not absolute, without ``..``."""
    path = PurePosixPath(name)
    return (
        bool(path.parts)
        and path.as_posix() == name
        and not path.is_absolute()
        and ".." not in path.parts
        and "\0" not in name
    )


def _is_manifest(name: str) -> bool:
    """``<package>/manifest.json``, at the top alone: upstream's packages may have one deeper down."""
    return name.count("/") == 1 and name.endswith(f"/{MANIFEST}")


def _sm(cubin: str) -> str:
    """``sm_121f`` of an arch as users write it; what an engine's own project compiles is already named so."""
    return cubin if cubin.startswith("sm_") else parse_arch(cubin).sm
