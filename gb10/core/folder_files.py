"""A mod's files in memory: their limits, their digest, and how they are written."""

import hashlib
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final, Literal

from gb10.errors import UsageError

SCRIPT: Final = "run.sh"
LARGEST: Final = 64 << 20  # bytes of all files together
MOST: Final = 10_000
LONGEST_PART: Final = 255
LONGEST_NAME: Final = 1024
DEEPEST: Final = 32
EXECUTABLE: Final = 0o111

Kind = Literal["file", "executable", "link", "folder"]


@dataclass(frozen=True, slots=True)
class ModFile:
    """One file, link or folder. The content of a link is its target."""

    kind: Kind
    content: bytes = b""


FOLDER: Final = ModFile("folder")
Files = Mapping[str, ModFile]


def check_name(name: str, path: Path) -> None:
    """Raise UsageError for a name that leads out of the mod, or that no image can hold."""
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or "\\" in name or ".." in parts or ":" in parts[0]:
        raise UsageError(
            f"{path} would write outside of its folder",
            where=repr(name),
            hint="a zip of a mod holds relative paths without `..`",
        )
    longest = max(len(os.fsencode(part)) for part in parts)
    if not name.isprintable() or longest > LONGEST_PART or len(name) > LONGEST_NAME or len(parts) > DEEPEST:
        raise UsageError(
            f"{path} contains an invalid name",
            where=ascii(name[:LONGEST_PART]),
            hint=f"names are printable UTF-8, at most {LONGEST_PART} bytes long and {DEEPEST} folders deep",
        )


def charge(budget: int, size: int, count: int, path: Path) -> int:
    if size > budget or count >= MOST:
        raise UsageError(
            f"{path} is too large for a mod",
            where=f"more than {LARGEST >> 20} MiB or {MOST} files",
            hint="let run.sh fetch what is large (network: true), or use --overlay",
        )
    return budget - size


def read_file(path: Path, budget: int) -> bytes:
    """Read a file, up to one byte over the limit: its size may have changed."""
    with path.open("rb") as handle:
        return handle.read(budget + 1)


def kind_of(mode: int) -> Kind:
    if stat.S_ISLNK(mode):
        return "link"
    return "executable" if mode & EXECUTABLE else "file"


def files_digest(files: Files) -> str:
    """Digest of names, contents, links and executable bits: the same for a folder and for a zip of it.

    Each name follows its length: no name can be read as the start of another entry.
    """
    whole = hashlib.sha256()
    for name, file in sorted(files.items()):
        text = name.encode()
        whole.update(f"{file.kind} {hashlib.sha256(file.content).hexdigest()} {len(text)} ".encode() + text)
    return whole.hexdigest()


def write_files(files: Files, folder: Path) -> Path:
    """Write the files, with modes that do not depend on the umask."""
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
