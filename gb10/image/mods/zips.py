"""Read a mod's zip into memory. A bad zip is refused before anything is written."""

import io
import struct
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from typing import Final

from gb10.core.folder_files import FOLDER, LARGEST, SCRIPT, Files, ModFile, charge, check_name, kind_of, read_file
from gb10.errors import UsageError

MEMBER: Final = b"PK\x01\x02"
"""The signature of each member in a zip's directory."""
PACKED: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
DAMAGED: Final = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError, OSError, struct.error)
"""What zipfile raises for a damaged or encrypted zip."""


def read_zip(path: Path) -> Files:
    """The files of a zip by their path in it; raises UsageError."""
    found: dict[str, ModFile] = {}
    room = LARGEST
    with _opened(path) as archive:
        for info in archive.infolist():
            if info.filename == "./":  # the folder itself, as bsdtar writes it
                continue
            check_name(info.filename, path)
            content = b"" if info.is_dir() else _content(archive, info, path, room)
            room = charge(room, len(content), len(found), path)
            kind = "folder" if info.is_dir() else kind_of(info.external_attr >> 16)
            _put(found, PurePosixPath(info.filename), ModFile(kind, content), path)
    return dict(sorted(_without_top(found).items()))


def _opened(path: Path) -> zipfile.ZipFile:
    """The zip, read whole; a list of members that is too long is refused before it is parsed."""
    raw = read_file(path, LARGEST)
    charge(LARGEST, len(raw), raw.count(MEMBER) - 1, path)
    try:
        return zipfile.ZipFile(io.BytesIO(raw))
    except DAMAGED as error:
        raise _damaged(path, str(error)) from error


def _damaged(path: Path, reason: str) -> UsageError:
    return UsageError(f"{path} cannot be unpacked", where=reason, hint="make the zip again, without a password")


def _put(found: dict[str, ModFile], name: PurePosixPath, file: ModFile, path: Path) -> None:
    """Add a file and the folders above it, which a zip may leave out."""
    folders = [(above, ModFile("folder")) for above in name.parents if above.name]
    for place, wanted in (*folders, (name, file)):
        there = found.setdefault(place.as_posix(), wanted)
        if there is not wanted and (there.kind, wanted.kind) != ("folder", "folder"):
            raise UsageError(
                f"{path} holds {place} twice",
                where=f"as a {there.kind} and as a {wanted.kind}",
                hint="make the zip again, with one of them",
            )


def _without_top(found: dict[str, ModFile]) -> dict[str, ModFile]:
    """The files below the one top folder of a zip, if that folder and nothing else holds a ``run.sh``."""
    tops = {name.partition("/")[0] for name in found}
    top = next(iter(tops)) if len(tops) == 1 else ""
    if found.get(f"{top}/{SCRIPT}", FOLDER).kind == "folder":
        return found
    return {name.removeprefix(f"{top}/"): file for name, file in found.items() if name != top}


def _content(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path, room: int) -> bytes:
    """A member's bytes, read only up to the limit, whatever size the zip claims."""
    if info.compress_type not in PACKED:
        raise _damaged(path, f"{info.filename}: its compression is neither `stored` nor `deflated`")
    charge(room, info.file_size, 0, path)
    try:
        with archive.open(info) as member:
            content = member.read(info.file_size + 1)
    except DAMAGED as error:
        raise _damaged(path, f"{info.filename}: {error}") from error
    if len(content) != info.file_size:
        raise _damaged(path, f"{info.filename}: {len(content)} of {info.file_size} bytes")
    return content
