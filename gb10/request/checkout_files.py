"""A local checkout: the files of it that count, its commit, and whether anything in it is not committed."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gb10.errors import UsageError
from gb10.host.proc import CommandFailedError, capture
from gb10.patches.source_tree import Folder
from gb10.sources.git.archive import outside

LEFT_BY_PYTHON: Final = ("__pycache__/", ".egg-info/")


@dataclass(frozen=True, kw_only=True, slots=True)
class Worktree:
    """A directory of the user's, and of it what git tracks or would; all of it where there is no git.

    ``commit`` is empty for a plain directory and before the first commit; ``described`` is what ``git describe`` says.
    ``modules`` are the folders of submodules, whose files are not among ``files``.
    """

    root: Path
    files: tuple[str, ...]
    git: bool = False
    commit: str = ""
    dirty: bool = False
    described: str = ""
    modules: tuple[str, ...] = ()


class Files(Folder):
    """The same files to be read, quickly: what git lists lies below no link, so that only a file itself may be one."""

    def read(self, path: str) -> bytes | None:
        """A file's bytes; None when there is none. Raises PatchError for a link out of the tree."""
        full = f"{self.root}/{path}"
        try:
            if os.path.islink(full):  # noqa: PTH114 - a Path for each of 10,000 files takes longer than its reading
                return super().read(path)
            with open(full, "rb") as file:  # noqa: PTH123
                return file.read()
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            return None


def open_worktree(path: Path, env: Mapping[str, str]) -> Worktree:
    """The checkout at a path. Raises UsageError for what is no directory, and for what git does not read."""
    if not path.is_dir():
        raise UsageError(f"{path} is no directory", hint="give the folder of a checkout: --source vllm=../vllm")
    root = path.resolve()
    if not (root / ".git").exists():
        files = tuple(file for file in Folder(root).paths() if not any(part in file for part in LEFT_BY_PYTHON))
        return Worktree(root=root, files=files)
    listed = _git(root, env, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    names = {name.removesuffix("/") for name in listed if name}
    modules = tuple(sorted(name for name in names if (root / name).is_dir() and not (root / name).is_symlink()))
    status = _git(root, env, "status", "--porcelain=v2", "--branch", "-z", "--ignore-submodules=all").split("\0")
    commit = next((line.split()[-1] for line in status if line.startswith("# branch.oid ")), "(initial)")
    known = commit != "(initial)"
    return Worktree(
        root=root,
        files=tuple(sorted(names - set(modules))),
        git=True,
        commit=commit if known else "",
        dirty=any(line and not line.startswith("# ") for line in status),
        described=_git(root, env, "describe", "--tags", "--always").strip() if known else "",
        modules=modules,
    )


def ignored(tree: Worktree, env: Mapping[str, str], paths: Iterable[str]) -> frozenset[str]:
    """Those of the paths, there or not, that the checkout's git would not track. Raises UsageError."""
    wanted = "\0".join(paths)
    if not tree.git or not wanted:
        return frozenset()
    try:
        found = _capture(tree.root, env, "check-ignore", "-z", "--stdin", stdin=wanted)
    except CommandFailedError as error:
        if error.returncode == 1:  # none of them
            return frozenset()
        raise _refused(tree.root, error) from error
    return frozenset(name for name in found.split("\0") if name)


def _git(root: Path, env: Mapping[str, str], *arguments: str) -> str:
    try:
        return _capture(root, env, *arguments)
    except CommandFailedError as error:
        raise _refused(root, error) from error


def _capture(root: Path, env: Mapping[str, str], *arguments: str, stdin: str | None = None) -> str:
    """What git says of a checkout that it must not write to; the user's settings count, as in their own shell."""
    asking = {**outside(env), "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    return capture(["git", "-C", str(root), *arguments], env=asking, stdin=stdin)


def _refused(root: Path, error: CommandFailedError) -> UsageError:
    if error.returncode == 127:
        return UsageError(
            f"git is not installed, and {root} is a git checkout",
            hint="apt-get install git, or give a plain copy of it without .git",
        )
    return UsageError(
        f"git cannot read the checkout {root}",
        where=error.tail.strip(),
        hint="mend what git says, or give a plain copy of it without .git",
    )
