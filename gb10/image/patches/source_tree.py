"""A source's files, read where they lie: a directory, a source archive or a wheel; nothing is unpacked or run."""

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from gb10.errors import PatchError, UsageError
from gb10.image.patches.archives import DAMAGED, Sdist, Wheel, check_bytes


class Tree(Protocol):
    """Files by their path below the source's root; ``installed``: as they are installed, without what is compiled."""

    @property
    def installed(self) -> bool:
        """Whether this is a wheel."""

    def paths(self) -> tuple[str, ...]:
        """Every file, sorted."""

    def read(self, path: str) -> bytes | None:
        """A file's bytes; None when there is none."""


class Folder:
    """A directory; a link that leads out of it is an error."""

    installed = False

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()

    def paths(self) -> tuple[str, ...]:
        """Every file, sorted; version control's own left out."""
        files = (path.relative_to(self.root) for path in self.root.rglob("*") if path.is_file())
        return tuple(sorted(path.as_posix() for path in files if ".git" not in path.parts))

    def read(self, path: str) -> bytes | None:
        """A file's bytes; None when there is none. Raises PatchError for a link out of the tree or in a circle."""
        inside = Path(os.path.realpath(self.root / path))
        if not inside.is_relative_to(self.root):
            raise PatchError(
                f"{path} leads out of the tree",
                where=f"{self.root / path} -> {inside}",
                hint="a patch is applied only to files that lie in the tree itself",
            )
        try:
            found = inside.stat()
            check_bytes(found.st_size, str(inside))
            return inside.read_bytes() if stat.S_ISREG(found.st_mode) else None
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise PatchError(
                f"{path} cannot be read: {error.strerror}",
                where=str(self.root / path),
                hint="mend or remove it: a tree holds readable files",
            ) from error


class Changed:
    """A tree with some files replaced (None: taken away); the tree below stays as it is."""

    def __init__(self, below: Tree, changes: Mapping[str, bytes | None]) -> None:
        self.below = below
        self.changes = changes
        self.installed = below.installed

    def paths(self) -> tuple[str, ...]:
        """Every file, sorted."""
        gone = {path for path, content in self.changes.items() if content is None}
        return tuple(sorted(({*self.below.paths(), *self.changes}) - gone))

    def read(self, path: str) -> bytes | None:
        """A file's bytes; None when there is none."""
        return self.changes[path] if path in self.changes else self.below.read(path)


class Below:
    """A folder of a tree, as a tree: a source that another one bundles."""

    def __init__(self, around: Tree, folder: str) -> None:
        self.around = around
        self.start = f"{folder}/"
        self.installed = around.installed

    def paths(self) -> tuple[str, ...]:
        """Every file, sorted."""
        return tuple(path.removeprefix(self.start) for path in self.around.paths() if path.startswith(self.start))

    def read(self, path: str) -> bytes | None:
        """A file's bytes; None when there is none."""
        return self.around.read(self.start + path)


def open_tree(path: Path) -> Tree:
    """The tree at a path: a directory, ``*.whl`` or a source archive. Raises PatchError."""
    if path.is_dir():
        return Folder(path)
    if not path.exists():
        raise UsageError(f"there is no {path}", hint="give a directory, a wheel or a source archive (.tar.gz)")
    try:
        return Wheel(path) if path.suffix == ".whl" else Sdist(path)
    except DAMAGED as error:
        raise PatchError(
            f"{path} is no source tree: {error}",
            where=str(path),
            hint="give a directory, a wheel or a source archive (.tar.gz)",
        ) from error
