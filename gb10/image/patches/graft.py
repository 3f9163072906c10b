"""A wheel with some files changed: these, METADATA and RECORD are written again, all others copied byte for byte.

Format: https://packaging.python.org/en/latest/specifications/binary-distribution-format/ ; the new version is a
local one (PEP 440), so that every requirement the upstream release meets is still met.
"""

import base64
import csv
import hashlib
import io
import re
import struct
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from packaging.utils import parse_wheel_filename
from packaging.version import Version

from gb10.errors import PatchError

OLDEST: Final = (1980, 1, 1, 0, 0, 0)
UNIX: Final = 3
PLAIN: Final = 0o100644 << 16
LOCAL_HEADER: Final = struct.Struct("<4s5H3L2H")


def local_version(version: Version, key: str) -> str:
    """``0.33.0+gb10.<key8>``; a local version that is there already stays in front. All digits lose leading zeros."""
    own = f"gb10.{int(key[:8]) if key[:8].isdigit() else key[:8]}"
    return f"{version.public}+{f'{version.local}.{own}' if version.local else own}"


def grafted_name(wheel: str, key: str) -> str:
    """The file name of a grafted wheel: the upstream one's with the local version."""
    project, version, *rest = wheel.split("-")
    return "-".join([project, local_version(Version(version), key), *rest])


def graft(wheel: Path, changes: Mapping[str, bytes | None], key: str, out: Path) -> Path:
    """Write the grafted wheel into ``out``; returns its path. Raises PatchError when a change makes no sense there."""
    target = out / grafted_name(wheel.name, key)
    own = local_version(parse_wheel_filename(wheel.name)[1], key)
    with zipfile.ZipFile(wheel) as before, zipfile.ZipFile(target, "w") as after:
        info = _info_folder(before, wheel)
        _check(before, changes, wheel)
        rename = _Rename(info.removesuffix(".dist-info"), f"{info.split('-')[0]}-{own}")
        written = {f"{info}/METADATA": with_version(before.read(f"{info}/METADATA"), own), **changes}
        record = f"{info}/RECORD"
        for entry in before.infolist():
            if entry.filename not in (*written, record):
                _copy(before, after, entry, rename(entry.filename))
        modes = {entry.filename: entry.external_attr for entry in before.infolist()}
        for name, content in sorted(written.items()):
            _write(after, rename(name), content or b"", modes.get(name, PLAIN))
        text = new_record(before.read(record).decode(), written, rename)
        _write(after, rename(record), text.encode(), modes[record])
    return target


def _write(archive: zipfile.ZipFile, name: str, content: bytes, mode: int) -> None:
    entry = zipfile.ZipInfo(name, OLDEST)
    entry.external_attr, entry.create_system = mode, UNIX
    archive.writestr(entry, content)


@dataclass(frozen=True, slots=True)
class _Rename:
    """``name-version.dist-info`` and ``name-version.data`` carry the version in their names."""

    old: str
    new: str

    def __call__(self, name: str) -> str:
        for end in (".dist-info/", ".data/"):
            if name.startswith(self.old + end):
                return self.new + name.removeprefix(self.old)
        return name


def with_version(metadata: bytes, version: str) -> bytes:
    """METADATA with another version. Pure."""
    text, count = re.subn(rb"(?m)^Version: .*$", f"Version: {version}".encode(), metadata, count=1)
    if not count:
        raise PatchError("the wheel's METADATA names no version")
    return text


def new_record(record: str, written: Mapping[str, bytes | None], rename: Callable[[str], str]) -> str:
    """RECORD with new lines for what is written, in the old order; every other line as it was. Pure."""
    rows = [row for row in csv.reader(io.StringIO(record)) if row]
    lines = [_record_row(row, written, rename) for row in rows]
    known = {row[0] for row in rows}
    lines[-1:-1] = [row_of(rename(name), content or b"") for name, content in written.items() if name not in known]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue()


def _record_row(row: list[str], written: Mapping[str, bytes | None], rename: Callable[[str], str]) -> list[str]:
    content = written.get(row[0])
    return row_of(rename(row[0]), content) if content is not None else [rename(row[0]), *row[1:]]


def row_of(name: str, content: bytes) -> list[str]:
    """One row of RECORD: name, hash, size. Pure."""
    value = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return [name, f"sha256={value}", str(len(content))]


def check_changes(path: Path, changes: Mapping[str, bytes | None]) -> None:
    """Raise PatchError for a change that a layer above the wheel's cannot make."""
    with zipfile.ZipFile(path) as wheel:
        _check(wheel, changes, path)


def _check(wheel: zipfile.ZipFile, changes: Mapping[str, bytes | None], path: Path) -> None:
    top = {name.split("/")[0] for name in wheel.namelist()}
    foreign = [
        name for name in changes if name.split("/")[0] not in top or not {"", ".", ".."}.isdisjoint(name.split("/"))
    ]
    if foreign:
        raise PatchError(
            f"{path.name} has no place for {foreign[0]}",
            where="\n".join(foreign),
            hint="a wheel holds what is installed, not what is compiled",
        )
    gone = [name for name, content in changes.items() if content is None]
    if gone:
        raise PatchError(
            f"the patch deletes {gone[0]}",
            where="\n".join(gone),
            hint="patched files are a layer of their own: it cannot take one away",
        )


def _info_folder(wheel: zipfile.ZipFile, path: Path) -> str:
    found = {name.split("/")[0] for name in wheel.namelist() if name.endswith(".dist-info/METADATA")}
    if len(found) != 1:
        raise PatchError(f"{path.name} has {len(found)} dist-info folders, not one", where=str(path))
    return found.pop()


def _copy(before: zipfile.ZipFile, after: zipfile.ZipFile, entry: zipfile.ZipInfo, name: str) -> None:
    """The entry with its compressed bytes as they are; what the archive writes last is made from ``filelist``."""
    source: IO[bytes] = before.fp  # type: ignore[assignment]
    target: IO[bytes] = after.fp  # type: ignore[assignment]
    source.seek(entry.header_offset)
    head = LOCAL_HEADER.unpack(source.read(LOCAL_HEADER.size))
    source.seek(head[9] + head[10], 1)
    copied = zipfile.ZipInfo(name, entry.date_time)
    for field in ("compress_type", "external_attr", "create_system", "CRC", "compress_size", "file_size"):
        setattr(copied, field, getattr(entry, field))
    copied.flag_bits = entry.flag_bits & ~0x08  # sizes stand in the header, not behind the data
    target.seek(after.start_dir)
    copied.header_offset = target.tell()
    target.write(copied.FileHeader(zip64=None))
    left = entry.compress_size
    while left:
        block = source.read(min(left, 1 << 20))
        target.write(block)
        left -= len(block)
    after.start_dir = target.tell()
    after.filelist.append(copied)
    after.NameToInfo[name] = copied
