"""A mod's files, read from a folder or a zip into memory: refused before anything is written when they are no mod's."""

import hashlib
import os
import stat
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final, Literal

from gb10.errors import UsageError

LARGEST: Final = 64 << 20  # bytes of all files together
MOST: Final = 10_000
EXECUTABLE: Final = 0o111


Kind = Literal["file", "executable", "link", "folder"]


@dataclass(frozen=True, slots=True)
class ModFile:
    """One file, link or folder; a link's content is where it leads."""

    kind: Kind
    content: bytes = b""


Files = Mapping[str, ModFile]


def read_files(path: Path) -> Files:
    """The files of a mod by their path in it; raises UsageError."""
    if path.is_dir():
        return _folder(path)
    if path.is_file() and zipfile.is_zipfile(path):
        return _zip(path)
    where = "it is neither a folder nor a zip" if path.exists() else "nothing is there"
    hint = "give a folder or a zip with a run.sh, or the name of a mod: ./build.py mods list"
    raise UsageError(f"{path} is no mod", where=where, hint=hint)


def _folder(root: Path) -> Files:
    found: dict[str, ModFile] = {}
    room = LARGEST
    for path in _walk(root):
        name = path.relative_to(root).as_posix()
        if path.is_symlink():
            found[name] = ModFile("link", os.fsencode(path.readlink()))
        elif path.is_dir():
            found[name] = ModFile("folder")
        elif path.is_file():
            room = _take(room, path.stat().st_size, len(found), root)
            found[name] = ModFile(_kind(path.stat().st_mode), path.read_bytes())
        else:
            raise UsageError(f"{path} is neither a file, a link nor a folder", hint="a mod holds plain files")
    return dict(sorted(found.items()))


def _walk(root: Path) -> Iterator[Path]:
    """Everything, links not followed; what version control and Python keep for themselves left out."""
    for path in root.iterdir():
        if path.name in {".git", "__pycache__"}:
            continue
        yield path
        if path.is_dir() and not path.is_symlink():
            yield from _walk(path)


def _zip(path: Path) -> Files:
    found: dict[str, ModFile] = {}
    room = LARGEST
    with _opened(path) as archive:
        for info in archive.infolist():
            if info.filename == "./":  # the folder itself, as bsdtar writes it
                continue
            _check_name(info.filename, path)
            room = _take(room, info.file_size, len(found), path)
            kind = "folder" if info.is_dir() else _kind(info.external_attr >> 16)
            file = ModFile(kind, b"" if info.is_dir() else _content(archive, info, path))
            _put(found, PurePosixPath(info.filename), file, path)
    return dict(sorted(found.items()))


def _opened(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:
        raise UsageError(f"{path} cannot be unpacked", where=str(error), hint="make the zip anew") from error


def _put(found: dict[str, ModFile], name: PurePosixPath, file: ModFile, path: Path) -> None:
    """A file and the folders above it, which a zip may name or not."""
    folders = [(above, ModFile("folder")) for above in name.parents if above.name]
    for place, wanted in (*folders, (name, file)):
        there = found.setdefault(place.as_posix(), wanted)
        if there is not wanted and (there.kind, wanted.kind) != ("folder", "folder"):
            raise UsageError(
                f"{path} holds {place} twice",
                where=f"as a {there.kind} and as a {wanted.kind}",
                hint="make the zip anew, with one of them",
            )


def _kind(mode: int) -> Kind:
    if stat.S_ISLNK(mode):
        return "link"
    return "executable" if mode & EXECUTABLE else "file"


def _content(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path) -> bytes:
    try:
        return archive.read(info)
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        raise UsageError(
            f"{path} cannot be unpacked",
            where=f"{info.filename}: {error}",
            hint="make the zip anew, without a password",
        ) from error


def _check_name(name: str, path: Path) -> None:
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or "\\" in name or ".." in parts or ":" in parts[0]:
        raise UsageError(
            f"{path} would write outside of its folder",
            where=name,
            hint="a zip of a mod holds relative paths without `..`",
        )


def _take(room: int, size: int, count: int, path: Path) -> int:
    if size > room or count >= MOST:
        raise UsageError(
            f"{path} is too large for a mod",
            where=f"more than {LARGEST >> 20} MiB or {MOST} files",
            hint="let run.sh fetch what is large (network: true), or use --overlay",
        )
    return room - size


def files_digest(files: Files) -> str:
    """Digest of names, contents, links and executable bits: the same for a folder and for a zip of it."""
    lines = []
    for name, file in sorted(files.items()):
        lines.append(f"{file.kind} {hashlib.sha256(file.content).hexdigest()} {name}")
    return hashlib.sha256("\n".join(lines).encode(errors="surrogateescape")).hexdigest()


def write_files(files: Files, folder: Path) -> Path:
    """Lay the files out, with modes that no umask decides."""
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    for name, file in files.items():
        target = folder / name
        if file.kind == "folder":
            target.mkdir()
        elif file.kind == "link":
            target.symlink_to(os.fsdecode(file.content))
        else:
            target.write_bytes(file.content)
        if file.kind != "link":
            target.chmod(0o644 if file.kind == "file" else 0o755)
    return folder
