"""Inside a build stage: lay files over an image of others as a layer, each with the mode and owner that it has there.

    placed.py --below ROOT --files DIR --out ROOT --epoch SECONDS

Folders of the layer get mode and owner of those below, since a layer replaces them, too. A source whose bytecode lies
below gets an empty file in its place: Python takes that for no bytecode, and reads the source. So it does not matter
for which Python the bytecode was made, nor how that compares it with its source.
"""

import argparse
import os
import re
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

BYTECODE = "__pycache__"


def main() -> None:
    """Copy, replace bytecode, set modes and times."""
    parser = argparse.ArgumentParser(description=__doc__)
    for option in ("below", "files", "out"):
        parser.add_argument(f"--{option}", type=Path, required=True)
    parser.add_argument("--epoch", type=int, required=True)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for name in sorted(below(options.files)):
        place(options.files, options.below, options.out, name)
    for folder, names, files in os.walk(options.out):
        for name in (*names, *files):
            os.utime(Path(folder) / name, (options.epoch, options.epoch), follow_symlinks=False)
    os.utime(options.out, (options.epoch, options.epoch))


def below(root: Path) -> Iterator[PurePosixPath]:
    """The files, links and folders of a root, a folder before what it holds."""
    for folder, names, files in os.walk(root):
        for name in (*names, *files):
            yield PurePosixPath((Path(folder) / name).relative_to(root).as_posix())


def place(files: Path, root: Path, out: Path, name: PurePosixPath) -> None:
    """One entry. Raises SystemExit when a link of the image would lead it elsewhere."""
    source, old, target = files / name, root / name, out / name
    for parent in reversed(name.parents[:-1]):
        if (root / parent).is_symlink():
            raise SystemExit(f"/{name}: /{parent} is a link in the image: give the folder that it leads to")
        make_folder(root / parent, out / parent)
    if source.is_dir() and not source.is_symlink():
        if old.is_symlink():
            raise SystemExit(f"/{name} is a link in the image: give the folder that it leads to")
        make_folder(old, target)
        return
    shutil.copyfile(source, target, follow_symlinks=False)
    if not source.is_symlink():
        target.chmod(mode_of(old) or stat.S_IMODE(source.stat().st_mode) & 0o755 | 0o644)
    keep_owner(old, target)
    for stale in bytecode_of(old):
        cached = target.parent / BYTECODE / stale.name
        make_folder(stale.parent, cached.parent)
        cached.write_bytes(b"")
        cached.chmod(0o644)


def make_folder(old: Path, target: Path) -> None:
    """A folder with mode and owner of the one below, 0755 for a new one."""
    if not target.is_dir():
        target.mkdir()
        target.chmod(mode_of(old) or 0o755)
        keep_owner(old, target)


def mode_of(path: Path) -> int:
    """The mode of what lies below, without the right to act as its owner; 0 where nothing lies there, or a link."""
    found = entry(path)
    return 0 if found is None or stat.S_ISLNK(found.st_mode) else stat.S_IMODE(found.st_mode) & ~0o6000


def keep_owner(old: Path, target: Path) -> None:
    """Give the owner of what lies below; a new entry belongs to root."""
    found = entry(old)
    owner = (found.st_uid, found.st_gid) if found else (0, 0)
    os.chown(target, *owner, follow_symlinks=False)


def entry(path: Path) -> os.stat_result | None:
    """What lies at a path, links not followed."""
    try:
        return path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None


def bytecode_of(source: Path) -> list[Path]:
    """The bytecode that lies beside a source: ``NAME.cpython-312.pyc``, with or without ``.opt-1``."""
    folder = source.parent / BYTECODE
    if source.suffix != ".py" or folder.is_symlink() or not folder.is_dir():
        return []
    wanted = re.compile(rf"{re.escape(source.stem)}\.[A-Za-z0-9]+-[0-9]+(\.opt-[0-9a-z]+)?\.pyc")
    return sorted(path for path in folder.iterdir() if wanted.fullmatch(path.name))


if __name__ == "__main__":
    main()
