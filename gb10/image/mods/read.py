"""Mods: found by path or name, and read from a folder or a zip."""

import difflib
import io
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from gb10.core.folder_files import (
    FOLDER,
    LARGEST,
    SCRIPT,
    Files,
    ModFile,
    charge,
    check_name,
    files_digest,
    kind_of,
    read_file,
)
from gb10.errors import UsageError
from gb10.image.mods.declaration import ModRecord, check_mod

MEMBER: Final = b"PK\x01\x02"
"""The signature of each member in a zip's directory."""
PACKED: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
DAMAGED: Final = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError, OSError, struct.error)
"""What zipfile raises for a damaged or encrypted zip."""


def read_zip(path: Path) -> Files:
    """The files of a zip by their path in it; raises UsageError."""
    found: dict[str, ModFile] = {}
    budget = LARGEST
    with _opened(path) as archive:
        for info in archive.infolist():
            if info.filename == "./":  # the folder itself, as bsdtar writes it
                continue
            check_name(info.filename, path)
            content = b"" if info.is_dir() else _content(archive, info, path, budget)
            budget = charge(budget, len(content), len(found), path)
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
        existing = found.setdefault(place.as_posix(), wanted)
        if existing is not wanted and (existing.kind, wanted.kind) != ("folder", "folder"):
            raise UsageError(
                f"{path} holds {place} twice",
                where=f"as a {existing.kind} and as a {wanted.kind}",
                hint="make the zip again, with one of them",
            )


def _without_top(found: dict[str, ModFile]) -> dict[str, ModFile]:
    """The files below the one top folder of a zip, if that folder and nothing else holds a ``run.sh``."""
    tops = {name.partition("/")[0] for name in found}
    top = next(iter(tops)) if len(tops) == 1 else ""
    if found.get(f"{top}/{SCRIPT}", FOLDER).kind == "folder":
        return found
    return {name.removeprefix(f"{top}/"): file for name, file in found.items() if name != top}


def _content(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path, budget: int) -> bytes:
    """A member's bytes, read only up to the limit, whatever size the zip claims."""
    if info.compress_type not in PACKED:
        raise _damaged(path, f"{info.filename}: its compression is neither `stored` nor `deflated`")
    charge(budget, info.file_size, 0, path)
    try:
        with archive.open(info) as member:
            content = member.read(info.file_size + 1)
    except DAMAGED as error:
        raise _damaged(path, f"{info.filename}: {error}") from error
    if len(content) != info.file_size:
        raise _damaged(path, f"{info.filename}: {len(content)} of {info.file_size} bytes")
    return content


def read_files(path: Path) -> Files:
    """The files of a mod by their path in it; raises UsageError."""
    if path.is_dir():
        return _folder(path)
    # By its name, too: Python 3.14 calls a damaged zip none.
    if path.is_file() and (path.suffix == ".zip" or zipfile.is_zipfile(path)):
        return read_zip(path)
    where = "it is neither a folder nor a zip" if path.exists() else "it does not exist"
    hint = "give a folder or a zip with a run.sh, or the name of a mod: ./build.py mods list"
    raise UsageError(f"{path} is not a mod", where=where, hint=hint)


def _folder(root: Path) -> Files:
    found: dict[str, ModFile] = {}
    budget = LARGEST
    for path in _walk(root):
        name = path.relative_to(root).as_posix()
        check_name(name, root)
        mode = path.lstat().st_mode
        if stat.S_ISREG(mode):
            content = read_file(path, budget)
            budget = charge(budget, len(content), len(found), root)
            found[name] = ModFile(kind_of(mode), content)
        elif stat.S_ISLNK(mode) or stat.S_ISDIR(mode):
            budget = charge(budget, 0, len(found), root)
            link = stat.S_ISLNK(mode)
            found[name] = ModFile("link", os.fsencode(path.readlink())) if link else ModFile("folder")
        else:
            raise UsageError(f"{path} is neither a file, a link nor a folder", hint="a mod holds plain files")
    return dict(sorted(found.items()))


def _walk(root: Path) -> Iterator[Path]:
    """All files, without following links. Files of version control and Python's caches are left out."""
    folders = [root]
    while folders:
        for path in folders.pop().iterdir():
            if path.name in {".git", "__pycache__"}:
                continue
            yield path
            if stat.S_ISDIR(path.lstat().st_mode):
                folders.append(path)


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundMod:
    """A mod that keeps the contract. ``record`` is None without mod.yaml."""

    name: str
    path: Path
    record: ModRecord | None
    files: Files
    digest: str

    @property
    def network(self) -> bool:
        """Whether it declares that it needs the network."""
        return self.record is not None and self.record.network


def find_mod(root: Path, name: str) -> FoundMod:
    """The mod that ``--mod`` names: without a path separator one of the checkout; raises UsageError."""
    if "/" in name or name.endswith(".zip"):
        return load_mod(Path(name))
    known = mod_names(root)
    if name not in known:
        close = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
        guess = f"did you mean {close[0]!r}? " if close else ""
        raise UsageError(
            f"no mod {name!r}",
            where=str(root / name),
            hint=f"{guess}known: {', '.join(known)}; a folder of yours: ./{name}",
        )
    return load_mod(root / name)


def mod_names(root: Path) -> tuple[str, ...]:
    """The mods of the checkout."""
    return tuple(sorted(path.parent.name for path in root.glob("*/run.sh")))


def load_mod(path: Path) -> FoundMod:
    """The mod at a path, read and checked against the contract. Raises UsageError."""
    place = path.absolute()
    name = place.name.removesuffix(".zip") if place.is_file() else place.resolve().name
    files = read_files(place)
    return FoundMod(name=name, path=place, record=check_mod(name, files), files=files, digest=files_digest(files))
