"""The files of a mod, read from a folder or a zip."""

import os
import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path

from gb10.core.folder_files import LARGEST, Files, ModFile, charge, check_name, kind_of, read_file
from gb10.errors import UsageError
from gb10.image.mods.zips import read_zip


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
    room = LARGEST
    for path in _walk(root):
        name = path.relative_to(root).as_posix()
        check_name(name, root)
        mode = path.lstat().st_mode
        if stat.S_ISREG(mode):
            content = read_file(path, room)
            room = charge(room, len(content), len(found), root)
            found[name] = ModFile(kind_of(mode), content)
        elif stat.S_ISLNK(mode) or stat.S_ISDIR(mode):
            room = charge(room, 0, len(found), root)
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
