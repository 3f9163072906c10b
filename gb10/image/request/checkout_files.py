"""A local checkout: its files, its commit, and whether it has uncommitted changes."""

import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from packaging.version import InvalidVersion, Version

from gb10.core.proc import CommandFailedError, capture
from gb10.errors import PatchError, UsageError
from gb10.image.patches.releases import Told, check_told
from gb10.image.patches.selection import Place
from gb10.image.patches.source_tree import Folder, Tree
from gb10.image.patches.write import Difference
from gb10.image.recipe.image_recipe import PLAIN, Layout, Recipe
from gb10.sources.git.archive import outside

FORCED: Final = (
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.pager=cat",
    "core.sshCommand=false",
    "core.askPass=false",
    "credential.helper=",
    "diff.external=",
    "submodule.recurse=false",
)
"""Settings that name a program, overridden on git's command line, which has priority over every file."""
CLOSED: Final = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_PAGER": "cat",
    "LC_ALL": "C",
}
"""Git writes no index, fetches no missing object (a remote may be a program) and never prompts."""
PROGRAMS: Final = re.compile(
    r"(filter|include|includeif|protocol|lfs\.extension)\..*"
    r"|core\.(fsmonitor|sshcommand|gitproxy|worktree)"
    r"|remote\..*\.(uploadpack|vcs)",
    re.DOTALL,
)
"""Settings of a checkout by which git runs a program, or reads files elsewhere."""
BOOLEAN: Final = ("true", "false", "yes", "no", "on", "off", "1", "0", "")
"""``core.fsmonitor`` with one of these is git's own daemon, which FORCED turns off."""


def read_git(root: Path, env: Mapping[str, str], *arguments: str) -> str:
    """What git prints about a checkout. Raises UsageError when it prints an error."""
    try:
        return ask_git(root, env, *arguments)
    except CommandFailedError as error:
        raise refused(root, error) from error


def ask_git(root: Path, env: Mapping[str, str], *arguments: str, stdin: str | None = None) -> str:
    """The same, but raises CommandFailedError. The user's git settings apply, as in their shell."""
    forced = [word for setting in FORCED for word in ("-c", setting)]
    closed = {**outside(env), **CLOSED, "GIT_CEILING_DIRECTORIES": str(root.parent)}
    return capture(["git", "-C", str(root), *forced, *arguments], env=closed, stdin=stdin)


def check_settings(root: Path, env: Mapping[str, str]) -> None:
    """Raise UsageError for a checkout with git settings that can run a program."""
    found = [
        key
        for key, value in _own_settings(root, env)
        if PROGRAMS.fullmatch(key) and not _harmless(root, env, key, value)
    ]
    if found:
        raise UsageError(
            f"the git settings of {root} can run programs or read files elsewhere",
            where="\n".join(repr(key)[1:-1] for key in found[:10]),
            hint="remove them: git config --unset NAME\nor give a copy of the folder without .git",
        )


def _own_settings(root: Path, env: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Names and values of the repository's own settings; git lists them without using them."""
    words = read_git(root, env, "config", "--list", "--no-includes", "--show-scope", "-z").split("\0")
    for scope, setting in zip(words[::2], words[1::2], strict=False):
        if scope in ("local", "worktree"):
            key, _, value = setting.partition("\n")
            yield key, value


def _harmless(root: Path, env: Mapping[str, str], key: str, value: str) -> bool:
    """Whether a setting is safe: git's own daemon, or a submodule's own folder."""
    if key == "core.worktree":
        folder = Path(read_git(root, env, "rev-parse", "--absolute-git-dir").rstrip("\n"))
        return (folder / value).resolve() == root
    return key == "core.fsmonitor" and value.lower() in BOOLEAN


def refused(root: Path, error: CommandFailedError) -> UsageError:
    """The error when git is missing or cannot read the checkout."""
    if error.returncode == 127:
        return UsageError(
            f"git is not installed, and {root} is a git checkout",
            hint="apt-get install git, or give a plain copy without .git",
        )
    return UsageError(
        f"git cannot read the checkout {root}",
        where=error.tail.strip(),
        hint="fix what git reports, or give a plain copy without .git",
    )


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


MOST_DIFFERENT: Final = 300
"""Files that may differ from the release; more differences mean that the checkout is of another release."""
TELLING: Final = {"PKG-INFO": r"(?m)^Version: (\S+)$", "version.txt": r"\A\s*(\S+)\s*\Z"}
REQUIRES: Final = re.compile(r"(^|/)(pyproject\.toml|setup\.(py|cfg)|requirements[^/]*(/.*)?\.txt)$")
"""Files that say what a project requires."""
TAG: Final = re.compile(r"v?(\d+\.\d[^-]*)(-\d+-g[0-9a-f]+)?")


@dataclass(frozen=True, kw_only=True, slots=True)
class Released:
    """A source in the image's lock.

    ``bundled`` maps folders to the other sources they contain; ``told`` is the file that must give the version.
    """

    source: str
    place: Place
    tree: Tree
    bundled: Mapping[str, str]
    layout: Layout = PLAIN
    told: Told | None = None
    required: bool = False
    """Whether the recipe requires it by name, so ``--ref`` can change its release."""

    def __str__(self) -> str:
        return f"{self.source} {self.place.version}"


def check_checkout_release(released: Released, checkout: Worktree, tree: Tree) -> None:
    """Raise UsageError for a checkout that names another release: in a file of it, or by git's nearest tag.

    Raise PatchError when the file that must give the version does not.
    """
    if released.told:
        check_told(released.source, released.told, tree, released.place.version, str(checkout))
        return
    texts = [
        match
        for name, pattern in TELLING.items()
        if name in checkout.files and (match := re.search(pattern, (tree.read(name) or b"").decode("utf-8", "replace")))
    ]
    tag = TAG.fullmatch(checkout.described)
    for said in (version for match in (*texts, *([tag] if tag else ())) for version in _version(match[1])):
        if Version(said.public) != Version(released.place.version.public):
            raise _stranger(released, checkout, f"its version is {said}")


def check_difference(
    recipe: Recipe, released: Released, checkout: Worktree, found: Difference, given: Collection[str]
) -> None:
    """Raise UsageError for a checkout of another release, or for changes that this build cannot use.

    Raise PatchError for changes that a diff cannot hold; ``given`` are the sources that the user named.
    """
    if len(found.differ) > MOST_DIFFERENT:
        many = f"{len(found.differ):,} of {found.known:,} files differ or are missing: {_some(found.differ)}"
        raise _stranger(released, checkout, many)
    _check_changes(released, checkout, found)
    _check_bundled(released, checkout, found, given)
    _check_compiled(recipe, released, checkout, found)


def _version(text: str) -> Iterable[Version]:
    """The version in a text, or None: a fork's own tags are not versions."""
    try:
        yield Version(text)
    except InvalidVersion:
        return


def _stranger(released: Released, checkout: Worktree, why: str) -> UsageError:
    git = f"git -C {checkout.root} switch --detach v{released.place.version}" if checkout.git else "unpack that release"
    git = (
        f"choose a commit on top of v{released.place.version}"
        if checkout.url
        else f"{git}, then apply your changes to it"
    )
    ref = f"\nor build that release: --ref {released.source}=VERSION" if released.required else ""
    at = f"\nit is at {_at(checkout)}" if checkout.git else ""
    return UsageError(
        f"{checkout} is not a checkout of {released}, the locked release",
        where=f"{why}{at}",
        hint=f"{git}{ref}",
    )


def _check_changes(released: Released, checkout: Worktree, found: Difference) -> None:
    """Raise PatchError for a missing file or a file that is not text."""
    if found.gone:
        raise PatchError(
            f"{checkout} lacks files of {released}",
            where=_listed(found.gone),
            hint="a layer on top of upstream's cannot remove a file: keep the file, or empty it",
        )
    changed = {**found.installed, **found.compiled}
    binary = [path for path, both in changed.items() if any(b"\0" in (side or b"") for side in both)]
    if binary:
        raise PatchError(
            f"{checkout} changes files of {released} that are not text",
            where=_listed(binary),
            hint="revert them, or add your files with --overlay DIR",
        )


def _check_bundled(released: Released, checkout: Worktree, found: Difference, given: Collection[str]) -> None:
    """Raise UsageError for changes to a bundled source that the user did not name."""
    for folder, source in released.bundled.items():
        theirs = [path for path in found.elsewhere if path.startswith(f"{folder}/")]
        if theirs and source not in given:
            raise UsageError(
                f"{checkout} changes {source}, which {released} bundles",
                where=_listed(theirs),
                hint=f"add --source {source}={'DIR, with these files' if checkout.url else checkout.root / folder}",
            )


def _check_compiled(recipe: Recipe, released: Released, checkout: Worktree, found: Difference) -> None:
    """Raise UsageError for changes to compiled files when this build does not compile the source."""
    project = released.place.project
    here = {recipe.project(wheel.source) for wheel in recipe.built.values() if wheel.method != "extension"}
    if not found.compiled or released.place.folder or project in here:
        return
    could = project in {recipe.project(wheel.source) for wheel in recipe.wheels.values()}
    hint = "name the CMake targets to compile: --targets A,B" if could else "revert these changes in the checkout"
    if could and checkout.url:
        hint = "compile the whole project from it: --targets all\nor only what it changes: --targets A,B"
    raise UsageError(
        f"{checkout} changes what {released.source} compiles, but this build compiles nothing of it",
        where=_listed([*found.compiled]),
        hint=hint,
    )


def change_notes(released: Released, checkout: Worktree, found: Difference, *, derived: bool = False) -> Iterable[str]:
    """A line for each kind of file that differs. ``derived``: the lock has the checkout's requirements."""
    changed = sorted({**found.installed, **found.compiled})
    if changed:
        yield f"{released}: {checkout} ({_at(checkout)}) changes {len(changed):,} of its files: {_some(changed)}"
    else:
        yield f"{released}: {checkout} ({_at(checkout)}) has no changes that affect the build"
    lines = {
        "ignored, the build does not use them": found.unread,
        "may change requirements (the lock keeps those of the release)": []
        if derived
        else [*filter(REQUIRES.search, found.unread)],
        "ignored, new and not text (add them with --overlay DIR)": found.binary,
        "not compared, not in the locked wheel": found.outside,
        "not compared, submodules (the build uses the release's)": checkout.modules,
    }
    yield from (f"{released}: {text}: {len(paths):,} ({_some(paths)})" for text, paths in lines.items() if paths)


def _at(checkout: Worktree) -> str:
    if not checkout.git:
        return "a plain folder"
    commit = f"commit {checkout.commit[:12]}" if checkout.commit else "no commit yet"
    named = f", {checkout.described}" if checkout.described and checkout.described not in checkout.commit else ""
    return f"{commit}{named}{', with uncommitted changes' if checkout.dirty else ''}"


def _listed(paths: Sequence[str], most: int = 10) -> str:
    more = [f"and {len(paths) - most} more"] if len(paths) > most else []
    return "\n".join((*paths[:most], *more))


def _some(paths: Sequence[str], most: int = 3) -> str:
    return ", ".join(paths[:most]) + (", …" if len(paths) > most else "")
