"""Sources from git: the files of a tag or a commit as one tar, the same bytes wherever the commit comes from."""

import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from gb10.core.fetch import accept, ca_bundle, redact, stored
from gb10.core.files import Artifact, Checkout
from gb10.core.proc import SILENT, TOO_LARGE, CommandFailedError, capture, capture_while_active, stream
from gb10.core.store import Store, file_sha256
from gb10.errors import FetchError
from gb10.sources.git.address import without_login

LINK: Final = "160000"
"""git's mode of an entry that stands for a commit of another repository."""
LONGEST: Final = 2000
"""Characters of a URL."""
SCHEMES: Final = ("https", "ssh")
ABSENT: Final = re.compile(r"not our ref|unadvertised object|couldn't find remote ref", re.IGNORECASE)
"""What git says of an object that the host does not have, or does not give."""
HERE: Final = "file"
"""The scheme of what lies on the user's machine: a repository that comes from elsewhere may not name it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One entry of a tree: a file, or a link to another repository's commit."""

    mode: str
    object: str


@dataclass(frozen=True, slots=True)
class Tree:
    """What lies where, of a checkout and of the submodules that are in it by now.

    ``read`` reads a .gitmodules, by its object's name, as ``git config --list -z`` prints it.
    """

    wanted: Checkout
    entries: Mapping[str, Entry]
    read: Callable[[str], str]

    def commit(self, path: str) -> str:
        """The commit of the submodule at a path; raises FetchError for a path that is none."""
        entry = self.entries.get(path)
        if entry is None or entry.mode != LINK:
            known = ", ".join(name for name, other in self.entries.items() if other.mode == LINK) or "none"
            raise FetchError(
                f"{path} is no submodule at {self.wanted.what}",
                where=f"{redact(self.wanted.url)}\nsubmodules: {known}",
                hint="correct submodules in the recipe; one that lies in another needs that one, too",
            )
        return entry.object

    def url(self, path: str) -> str:
        """Where the submodule at a path is fetched from; raises FetchError when its parent does not say, or oddly."""
        if not path:
            return self.wanted.url
        owner = max(("", *(name for name in self.wanted.submodules if path.startswith(f"{name}/"))), key=len)
        modules = self.entries.get(f"{owner}/.gitmodules".lstrip("/"))
        named = _url_of(self.read(modules.object), path.removeprefix(owner).lstrip("/")) if modules else ""
        parent = self.url(owner)
        found = submodule_url(parent, named) if is_url(named) else ""
        scheme, local = urlsplit(found).scheme, urlsplit(parent).scheme == HERE
        if scheme == HERE and not local:
            raise FetchError(
                f"the submodule {path} names a place on this machine: {found}",
                where=f"in .gitmodules of {redact(parent)}",
                hint=f"only a file:// parent may: leave {path} out of submodules in the recipe, or name a "
                "clone of the parent there, by its file:// URL",
            )
        if scheme not in (*SCHEMES, HERE):
            known = ", ".join(f"{name}://" for name in ((*SCHEMES, HERE) if local else SCHEMES))
            raise FetchError(
                f"the submodule {path} has no URL that gb10 reads: {redact(found) or ascii(named[:LONGEST])}",
                where=redact(parent),
                hint=f".gitmodules there must name one of {known}",
            )
        return found


def _url_of(modules: str, path: str) -> str:
    """The URL that a .gitmodules has for a path: its settings each end in a NUL, a line break behind the key."""
    settings = dict(setting.partition("\n")[::2] for setting in modules.split("\0"))
    named = next(
        (
            key.removesuffix(".path")
            for key, value in settings.items()
            if key.startswith("submodule.") and key.endswith(".path") and value == path
        ),
        "",
    )
    return settings.get(f"{named}.url", "")


def is_url(text: str) -> bool:
    """Whether a .gitmodules may name this: short, printable, and understood as a URL."""
    try:
        return bool(urlsplit(text)) and len(text) <= LONGEST and text.isprintable()
    except ValueError:
        return False


def submodule_url(base: str, url: str) -> str:
    """The URL that a parent means: ``./`` and ``../`` start from its own, as in git."""
    if not url.startswith(("./", "../")):
        return url
    parts = urlsplit(base)
    path = parts.path.rstrip("/")
    while url.startswith(("./", "../")):
        word, _, url = url.partition("/")
        path = path.rpartition("/")[0] if word == ".." else path
    return urlunsplit(parts._replace(path=f"{path}/{url}"))


ALONE: Final = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_ATTR_NOSYSTEM": "1",
    "XDG_CONFIG_HOME": "/nonexistent",
    "GIT_CONFIG_COUNT": "0",
    "GIT_CONFIG_PARAMETERS": "",
}
"""For what decides bytes: a user's line endings and attributes do not. Asking a server, their settings count."""
REPOSITORY: Final = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_COMMON_DIR",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
    "GIT_SHALLOW_FILE",
    "GIT_PREFIX",
    "GIT_ATTR_SOURCE",
)
PATIENCE: Final = 120.0
"""Seconds after which a git host that sends nothing is given up."""
NOBODY: Final = {f"GIT_{who}_{what}": "gb10" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
INIT: Final = ("git", "init", "--quiet", "--bare", "--object-format=sha1", "--template=")
"""SHA-1, as the hosts have it, and no attributes of the user's, whatever GIT_DEFAULT_HASH and GIT_TEMPLATE_DIR say."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What a tree may have; ``pack``: bytes of a file that git writes while it fetches."""

    files: int = 100_000
    bytes: int = 1 << 29
    pack: int = 1 << 30
    hint: str = "a source has far less: check the URL; a recipe may name the paths that it needs"


SOURCE: Final = Limits()
"""Of a tree, as sources are read later."""


def resolve(store: Store, env: Mapping[str, str], filename: str, wanted: Checkout, limits: Limits = SOURCE) -> Artifact:
    """The tar of what a tag stands for now, or of a commit, kept in the store. Raises FetchError."""
    with _made(store, env, filename, wanted, limits) as (tar, commit):
        found = Artifact(filename, file_sha256(tar), tar.stat().st_size, replace(wanted, commit=commit))
        accept(tar, found, stored(store, found))
    return found


def fetch_checkout(store: Store, env: Mapping[str, str], locked: Artifact, checkout: Checkout) -> None:
    """The tar that was locked, made anew. Raises FetchError, also when the tag stands for another commit by now."""
    with _made(store, env, locked.filename, checkout, SOURCE) as (tar, commit):
        if commit != checkout.commit:
            raise FetchError(
                f"{checkout.what} is not the commit that was locked",
                where=f"{redact(checkout.url)}\nlocked {checkout.commit}\n found {commit}",
                hint="read what changed upstream; ./build.py lock takes it",
            )
        with store.locked(f"download-{locked.sha256}"):
            accept(tar, locked, stored(store, locked))


@contextmanager
def _made(
    store: Store, env: Mapping[str, str], filename: str, wanted: Checkout, limits: Limits
) -> Iterator[tuple[Path, str]]:
    """A tar of the files below ``<name>-<version>/``, gone afterwards, and the commit."""
    work = store.scratch("checkout")
    tar, git = work / filename, BareGit(work / "git", env, limits)
    try:
        capture([*INIT, str(git.repository)], env=git.asking | ALONE)
        commit = git.fetch(wanted.url, wanted.ref)
        whole = _with_submodules(git, wanted, commit) if wanted.submodules else commit
        git.check_size(whole, wanted, work / "listed")
        git.alone("archive", f"--output={tar}", f"--prefix={tar.stem}/", whole, "--", *wanted.paths)
        yield tar, commit
    except CommandFailedError as error:
        raise _failed(error, wanted, filename, limits) from error
    finally:
        shutil.rmtree(work)


@dataclass(frozen=True, slots=True)
class BareGit:
    """A bare repository: filled with what becomes one tar, then read."""

    repository: Path
    env: Mapping[str, str]
    limits: Limits

    @property
    def asking(self) -> dict[str, str]:
        """The user's environment, for requests to a server; git never prompts."""
        bundle = ca_bundle(self.env)
        return {
            "GIT_SSH_COMMAND": "ssh -oBatchMode=yes -oConnectTimeout=30 -oServerAliveInterval=15",
            **outside(self.env),
            "GIT_TERMINAL_PROMPT": "0",
            "LC_ALL": "C",
            **({"GIT_SSL_CAINFO": str(bundle)} if bundle else {}),
        }

    def fetch(self, url: str, ref: str) -> str:
        """The commit of a ref, with its files; a commit is its own ref."""
        plain, env = without_login(url, self.asking)
        arguments = ("fetch", "--progress", "--depth", "1", "--no-tags", plain, ref)
        capture_while_active(self.argv(*arguments), env=env, patience=PATIENCE, largest=self.limits.pack)
        return self._run("rev-parse", "FETCH_HEAD^{commit}", env=self.asking).strip()

    def check_size(self, commit: str, wanted: Checkout, log: Path) -> None:
        """Raise FetchError for a tree with more than a source has: its archive would be as large."""
        bounds = _Bounds(wanted, self.limits)
        argv = self.argv("ls-tree", "-r", "-l", commit, "--", *wanted.paths)
        stream(argv, log=log, on_line=bounds.count, env={**self.asking, **ALONE})

    def alone(self, *arguments: str, stdin: str | None = None, **more: str) -> str:
        """What no setting of the user's decides."""
        return self._run(*arguments, env={**self.asking, **ALONE, **more}, stdin=stdin)

    def _run(self, *arguments: str, env: Mapping[str, str], stdin: str | None = None) -> str:
        return capture(self.argv(*arguments), env=env, stdin=stdin)

    def argv(self, *arguments: str) -> list[str]:
        """The command line of git on this repository."""
        return ["git", "-c", "tar.umask=0022", f"--git-dir={self.repository}", *arguments]


class _Bounds:
    """The files of a tree, counted as git lists them: a small object may stand for any number of them."""

    def __init__(self, wanted: Checkout, limits: Limits) -> None:
        self.wanted, self.limits, self.files, self.bytes = wanted, limits, 0, 0

    def count(self, line: str) -> None:
        """A line of ``ls-tree -l``. Raises FetchError past a limit."""
        size = line.partition("\t")[0].split()[-1:]
        self.files += 1
        self.bytes += int(size[0]) if size and size[0].isdecimal() else 0
        if self.files > self.limits.files or self.bytes > self.limits.bytes:
            raise FetchError(
                f"{self.wanted.what} holds more than {self.limits.files:,} files or {self.limits.bytes >> 20} MiB",
                where=redact(self.wanted.url),
                hint=self.limits.hint,
            )


def _with_submodules(git: BareGit, wanted: Checkout, commit: str) -> str:
    """A commit of the same time whose tree holds the submodules' files, each at the commit that its parent names."""
    git.alone("read-tree", commit)
    for path in sorted(wanted.submodules):  # a parent before what lies in it
        tree = Tree(wanted, _entries(git), lambda name: _modules(git, name))
        found = tree.commit(path)
        _fetch_submodule(git, wanted, path, tree.url(path), found)
        below = ("-C", str(git.repository), "--work-tree=.")  # these two ask for a work tree, and touch none
        git.alone(*below, "update-index", "--force-remove", "--", path)
        git.alone(*below, "read-tree", f"--prefix={path}/", found)
    time = git.alone("show", "--no-patch", "--format=%ct +0000", commit).strip()
    dates = {"GIT_AUTHOR_DATE": time, "GIT_COMMITTER_DATE": time}
    return git.alone("commit-tree", git.alone("write-tree").strip(), stdin=commit, **NOBODY, **dates).strip()


def _fetch_submodule(git: BareGit, wanted: Checkout, path: str, url: str, commit: str) -> None:
    try:
        git.fetch(url, commit)
    except CommandFailedError as error:
        raise FetchError(
            f"cannot take the submodule {path} from git, the commit {commit}",
            where=f"{redact(url)}\nof {redact(wanted.url)}\n{error.tail.strip()}",
            hint="check the network, and that this host still has the commit; a tree that does not need "
            f"it: leave {path} out of submodules in the recipe",
        ) from error


def _entries(git: BareGit) -> dict[str, Entry]:
    """What lies in the tree so far, by path."""
    lines = git.alone("ls-files", "--stage", "-z").rstrip("\0").split("\0")
    rows = [(*head.split(" "), path) for head, _, path in (line.partition("\t") for line in lines)]
    return {path: Entry(mode=mode, object=name) for mode, name, _, path in rows}


def _modules(git: BareGit, name: str) -> str:
    """The settings of a .gitmodules, by the object's name: a name, or a path, may hold blanks."""
    return git.alone("config", "--blob", name, "--list", "-z")


def outside(env: Mapping[str, str]) -> dict[str, str]:
    """The environment without the repository that a hook, or a rebase, may be running in."""
    return {name: value for name, value in env.items() if name not in REPOSITORY}


def _failed(error: CommandFailedError, wanted: Checkout, filename: str, limits: Limits) -> FetchError:
    if error.returncode == 127:
        return FetchError(
            f"git is not installed, and {wanted.what} comes from git",
            where=redact(wanted.url),
            hint="apt-get install git, or name a source archive that bundles it",
        )
    if error.returncode == SILENT:
        return FetchError(
            f"cannot take {wanted.what} from git: the host sent nothing for {PATIENCE:.0f} s",
            where=redact(wanted.url),
            hint="check the network and the proxy, or try again later",
        )
    if TOO_LARGE.search(error.tail):
        return FetchError(
            f"{wanted.what} from git has more than {limits.pack >> 20} MiB, packed",
            where=redact(wanted.url),
            hint="check the URL",
        )
    kind = wanted.what.split()[1]
    absent = (
        f"the repository does not have it: git ls-remote {redact(wanted.url)} prints its branches and tags;\n"
        "a branch that was rebased drops its commits, and a fork has its own"
    )
    return FetchError(
        f"cannot take {wanted.what} from git: {filename}",
        where=f"{redact(wanted.url)}\n{error.tail.strip()}",
        hint=absent if ABSENT.search(error.tail) else f"check the URL, the {kind}, the paths and the network",
    )
