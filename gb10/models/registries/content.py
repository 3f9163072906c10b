"""The files of a registry that gb10 keeps: recipes and mods, plain files alone, bounded in number and size.

Whoever made them may be hostile: a link is never followed, and an odd name is left out.
"""

import os
import stat
import tarfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from gb10.core.folder_files import SCRIPT, ModFile, files_digest
from gb10.errors import UsageError

SUFFIXES: Final = (".yaml", ".yml")
MANIFEST: Final = PurePosixPath(".sparkrun/registry.yaml")
MOST_SEEN: Final = 100_000
"""Files of a folder that are looked at."""
MOST_KEPT: Final = 10_000
LARGEST_RECIPE: Final = 1 << 20
LARGEST: Final = 64 << 20
"""Bytes of all files that are kept."""
LONGEST: Final = 200
DEEPEST: Final = 16
EXECUTABLE: Final = 0o111
ODD: Final = frozenset({"", ".", "..", ".git"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """A plain file of a tree, not read yet."""

    name: PurePosixPath
    size: int
    executable: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Content:
    """What is kept, by path, and how many entries are left out: links, odd names, special files."""

    files: Mapping[str, ModFile]
    left_out: int

    @property
    def digest(self) -> str:
        """Of names, bytes and executable bits."""
        return files_digest(self.files)


def _seen(name: str, size: int, mode: int) -> Seen:
    return Seen(name=PurePosixPath(name), size=size, executable=bool(mode & EXECUTABLE))


def content_of_tar(path: Path, where: str) -> Content:
    """The content of an archive of git's, whose first folder is the archive's own. Raises UsageError."""
    with tarfile.open(path, mode="r:") as archive:
        members = {str(PurePosixPath(*PurePosixPath(one.name).parts[1:])): one for one in archive if not one.isdir()}
        plain = {name: one for name, one in members.items() if one.isfile() and is_plain(name)}
        seen = [_seen(name, one.size, one.mode) for name, one in plain.items()]

        def read(one: Seen) -> bytes:
            stream = archive.extractfile(plain[str(one.name)])
            return stream.read(one.size) if stream else b""

        return _kept(seen, read, len(members) - len(plain), where)


def content_of_folder(root: Path) -> Content:
    """The content of a folder, without version control and without following a link. Raises UsageError."""
    seen, left_out = list[Seen](), 0
    for path, info in _walk(root):
        name = path.relative_to(root).as_posix()
        if stat.S_ISREG(info.st_mode) and is_plain(name):
            seen.append(_seen(name, info.st_size, info.st_mode))
        else:
            left_out += 1

    def read(one: Seen) -> bytes:
        with open(os.open(root / one.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as stream:  # noqa: PTH123
            return stream.read(one.size)

    return _kept(sorted(seen, key=lambda one: str(one.name)), read, left_out, str(root))


def _walk(root: Path) -> Iterator[tuple[Path, os.stat_result]]:
    folders, count = [root], 0
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                count += 1
                if count > MOST_SEEN:
                    hint = "name the folder of the recipes alone"
                    raise UsageError(f"{root} has more than {MOST_SEEN:,} files", hint=hint)
                info = entry.stat(follow_symlinks=False)
                if not stat.S_ISDIR(info.st_mode):
                    yield Path(entry.path), info
                elif entry.name not in ODD:
                    folders.append(Path(entry.path))


def is_plain(name: str) -> bool:
    """Whether a path stays in its tree, can be printed, and is neither long nor deep."""
    parts = name.split("/")
    return name.isprintable() and len(name) <= LONGEST and len(parts) <= DEEPEST and not ODD & set(parts)


def _kept(seen: list[Seen], read: Callable[[Seen], bytes], left_out: int, where: str) -> Content:
    mods = {one.name.parent for one in seen if one.name.name == SCRIPT and len(one.name.parts) > 1}
    wanted = [one for one in seen if _is_recipe(one) or mods & set(one.name.parents)]
    if len(wanted) > MOST_KEPT or sum(one.size for one in wanted) > LARGEST:
        raise UsageError(
            f"{where} has more than {MOST_KEPT:,} recipes and files of mods, or more than {LARGEST >> 20} MiB of them",
            hint="name a folder or a repository of recipes",
        )
    files = {str(one.name): ModFile("executable" if one.executable else "file", read(one)) for one in wanted}
    return Content(files=files, left_out=left_out)


def _is_recipe(one: Seen) -> bool:
    hidden = any(part.startswith(".") for part in one.name.parts)
    return one.name.suffix in SUFFIXES and one.size <= LARGEST_RECIPE and (not hidden or one.name == MANIFEST)


def content_of_text(name: str, text: bytes) -> Content:
    """The content of a registry of one recipe."""
    return Content(files={name: ModFile("file", text)}, left_out=0)
