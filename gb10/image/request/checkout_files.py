"""A local checkout: its files, its commit, and whether it has uncommitted changes."""

import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gb10.core.proc import CommandFailedError
from gb10.errors import UsageError
from gb10.image.request.checkout_git import ask_git, check_settings, read_git, refused
from gb10.patches.source_tree import Folder

LEFT_BY_PYTHON: Final = ("__pycache__/", ".egg-info/")


@dataclass(frozen=True, kw_only=True, slots=True)
class Worktree:
    """A user's directory with the files that git tracks or would add; all files without git.

    ``commit`` is empty for a plain directory or without a commit; ``described`` is what ``git describe`` prints.
    ``modules`` are the folders of submodules, whose files are not among ``files``. ``url``: the repository of which a
    commit was fetched; then ``root`` is the archive of its files.
    """

    root: Path
    files: tuple[str, ...]
    git: bool = False
    commit: str = ""
    dirty: bool = False
    described: str = ""
    modules: tuple[str, ...] = ()
    url: str = ""

    def __str__(self) -> str:
        return f"{self.url}@{self.commit[:12]}" if self.url else str(self.root)


class Files(Folder):
    """The same files with fast reads; links to files and folders are followed as in Folder."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.real: dict[str, bool] = {}

    def read(self, path: str) -> bytes | None:
        """A file's bytes; None when it is not a plain file. Raises PatchError for a path outside the tree."""
        if not self._is_real(path.rpartition("/")[0]):
            return super().read(path)
        try:  # not Path: for 10,000 files it is slower than the reads
            handle = os.open(f"{self.root}/{path}", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError:  # a link
            return super().read(path)
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            return None
        with open(handle, "rb") as file:  # noqa: PTH123
            return file.read()

    def _is_real(self, folder: str) -> bool:
        """Whether no part of a folder's path is a link or leads up."""
        if folder not in self.real:
            full = f"{self.root}/{folder}" if folder else str(self.root)
            self.real[folder] = os.path.realpath(full) == full
        return self.real[folder]


def require_folder(path: Path) -> None:
    """Raise UsageError for a path that is not a directory."""
    if not path.is_dir():
        raise UsageError(f"{path} is not a directory", hint="give the folder of a checkout: --source vllm=../vllm")


def open_worktree(path: Path, env: Mapping[str, str]) -> Worktree:
    """The checkout at a path. Raises UsageError for a missing directory, unsafe git settings or git errors."""
    require_folder(path)
    root = path.resolve()
    if not (root / ".git").exists():
        files = tuple(file for file in Folder(root).paths() if not any(part in file for part in LEFT_BY_PYTHON))
        return Worktree(root=root, files=files)
    check_settings(root, env)
    listed = read_git(root, env, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    names = {name.removesuffix("/") for name in listed if name}
    modules = tuple(sorted(name for name in names if (root / name).is_dir() and not (root / name).is_symlink()))
    asked = ("--porcelain=v2", "--branch", "-z", "--ignore-submodules=all", "--no-renames")
    status = read_git(root, env, "status", *asked).split("\0")
    commit = next((line.split()[-1] for line in status if line.startswith("# branch.oid ")), "(initial)")
    known = commit != "(initial)"
    return Worktree(
        root=root,
        files=tuple(sorted(names - set(modules))),
        git=True,
        commit=commit if known else "",
        dirty=any(line and not line.startswith("# ") for line in status),
        described=read_git(root, env, "describe", "--tags", "--always").strip() if known else "",
        modules=modules,
    )


def ignored(tree: Worktree, env: Mapping[str, str], paths: Iterable[str]) -> frozenset[str]:
    """The paths, existing or not, that git ignores in this checkout. Raises UsageError."""
    wanted = "\0".join(paths)
    if not tree.git or not wanted:
        return frozenset()
    try:
        found = ask_git(tree.root, env, "check-ignore", "-z", "--stdin", stdin=wanted)
    except CommandFailedError as error:
        if error.returncode == 1:  # none of them
            return frozenset()
        raise refused(tree.root, error) from error
    return frozenset(name for name in found.split("\0") if name)
