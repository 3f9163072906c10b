"""What a command line installs: the requirements of pip and uv, the packages of apt, the repository of git. Pure."""

import posixpath
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from packaging.requirements import InvalidRequirement

from gb10.core.fields import parse_requirement
from gb10.sources.web import public as without_login

PREFIXES: Final = ("sudo", "time", "exec", "nice", "command", "env")
PYTHON: Final = re.compile(r"python(3(\.\d+)?)?")
PIP: Final = re.compile(r"pip(3(\.\d+)?)?")
SETTING: Final = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
PYPI: Final = ("https://pypi.org/simple", "https://pypi.python.org/simple")
FILES: Final = ("-r", "--requirement", "--requirements")
CONSTRAINTS: Final = ("-c", "--constraint", "--constraints", "--build-constraint", "-b")
INDEX_OPTIONS: Final = ("-i", "--index-url", "--extra-index-url", "--index", "--default-index", "-f", "--find-links")
OVERRIDES: Final = ("--override", "--overrides")
ELSEWHERE: Final = (
    *(
        "-t",
        "--target",
        "--prefix",
        "--root",
        "-e",
        "--editable",
        "--no-binary",
        "--group",
        *OVERRIDES,
    ),
)
"""Options after which it is no plain install into the image, or no wheel."""
VALUED: Final = (
    *("--index-strategy", "--python", "-p", "--upgrade-strategy", "--global-option", "--config-settings", "-C"),
    *("--timeout", "--retries", "--trusted-host", "--cache-dir", "--progress-bar", "--only-binary", "--link-mode"),
    *("--torch-backend", "--prerelease", "--resolution", "--keyring-provider", "--exclude-newer", "--proxy", "--cert"),
    *("--upgrade-package", "-P", "--reinstall-package", "--platform", "--python-platform", "--python-version"),
    *("--config-setting", "--no-build-isolation-package", "--refresh-package", "--root-user-action", "--report"),
)
FLAGS: Final = frozenset(
    (
        *("-q", "-qq", "-v", "-vv", "-vvv", "-U", "-I", "-y", "--upgrade", "--no-cache-dir", "--no-cache", "-n"),
        *("--no-deps", "--no-dependencies", "--no-build-isolation", "--force-reinstall", "--reinstall", "--system"),
        *("--break-system-packages", "--ignore-installed", "--no-warn-script-location", "--quiet", "--verbose"),
        *("--pre", "--require-hashes", "--no-input", "--disable-pip-version-check", "--use-pep517", "--no-compile"),
        *("--compile", "--compile-bytecode", "--prefer-binary", "--no-index", "--user", "--no-verify-hashes"),
        *("--no-python-version-warning", "--check-build-dependencies", "--no-build", "--native-tls", "--strict"),
        *("--no-progress", "--offline", "--refresh", "--exact", "--no-color", "--no-clean", "--use-feature=fast-deps"),
    )
)
MOST: Final = 2_000
"""Lines of the requirements files of one command."""
DEEPEST: Final = 8
"""Requirements files that name each other."""
ARCHIVE: Final = re.compile(
    r"(https://[^/]+/[^/]+/[^/]+?)(?:\.git)?/archive/(?:refs/(?:tags|heads)/)?(.+?)(?:\.tar\.gz|\.zip)"
)


def public(url: str) -> str:
    """A URL of theirs as it is shown: without login, query and fragment; not as a link when it is none."""
    try:
        return without_login(url)
    except ValueError:
        return "a URL that is none"


@dataclass(frozen=True, kw_only=True, slots=True)
class Tree:
    """A project that is compiled from its sources: where they are, and the commit or tag; empty where none is named."""

    url: str
    ref: str = ""

    @property
    def name(self) -> str:
        """A name for it in a recipe."""
        last = self.url.rstrip("/").rpartition("/")[2].removesuffix(".git")
        return re.sub(r"[^a-z0-9._-]+", "-", last.lower()).strip("-._") or "package"


@dataclass(frozen=True, kw_only=True, slots=True)
class Installs:
    """What one call of pip or uv installs.

    ``trees``: from sources, which takes a wheel method. ``places``: folders and files of the build's own.
    ``problems``: why it cannot be a requirement. ``notes``: what the lock does in another way. ``urls``: files of the
    web. ``backend``: the CUDA of PyTorch that uv is asked for.
    """

    requirements: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    trees: tuple[Tree, ...] = ()
    places: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    indexes: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    backend: str = ""


def without_prefix(words: Sequence[str | None]) -> tuple[str | None, ...]:
    """A command without ``sudo``, ``env NAME=VALUE`` and the like before it."""
    left = list(words)
    while left and left[0] and (left[0].rsplit("/", 1)[-1] in PREFIXES or SETTING.fullmatch(left[0])):
        left.pop(0)
        while left and left[0] and left[0].startswith("-") and left[0] != "-m":
            unset = left.pop(0) in ("-u", "-n")
            if unset and left:
                left.pop(0)
    return tuple(left)


def pip_arguments(words: Sequence[str | None]) -> tuple[str, tuple[str | None, ...]] | None:
    """The subcommand of pip or ``uv pip`` and its arguments; None for another program."""
    left = [*without_prefix(words)]
    if not left or left[0] is None:
        return None
    program = left.pop(0)
    name = (program or "").rsplit("/", 1)[-1]
    if PYTHON.fullmatch(name) and left[:1] == ["-m"] and left[1:2] and left[1]:
        name = left[1]
        del left[:2]
    if name == "uv":
        while left and left[0] and left[0].startswith("-"):
            left.pop(0)
        if left[:1] != ["pip"]:
            return None
        left.pop(0)
    elif not PIP.fullmatch(name):
        return None
    while left and left[0] and left[0].startswith("-"):
        left.pop(0)
    return (left[0] or "", tuple(left[1:])) if left else ("", ())


def files_read(arguments: Sequence[str | None]) -> Iterator[str]:
    """The files of requirements, constraints and overrides that the arguments of ``pip install`` name."""
    for word, after in pairwise((*arguments, None)):
        name, equals, value = (word or "").partition("=")
        if name in (*FILES, *CONSTRAINTS, *OVERRIDES) and (value if equals else after):
            yield value if equals else after or ""
        elif name[:2] in ("-r", "-c") and len(name) > 2:
            yield (word or "")[2:]


def read_install(arguments: Sequence[str | None], read: Callable[[str], str | None]) -> Installs:
    """What ``pip install`` installs. ``read`` gives a file by its path in the image, None for one that is not known."""
    found = _Arguments(read)
    found.line(list(arguments), 0)
    return replace(
        found.installs(),
        requirements=() if found.unsure else tuple(dict.fromkeys(found.requirements)),
        constraints=tuple(dict.fromkeys(found.constraints)),
    )


class _Arguments:
    """One reading of a command line, and of the requirements files that it names."""

    def __init__(self, read: Callable[[str], str | None]) -> None:
        self.read = read
        self.folder = ""
        """Of the requirements file that is being read: it names others from there."""
        self.count = 0
        self.unsure = False
        self.requirements = list[str]()
        self.constraints = list[str]()
        self.trees = list[Tree]()
        self.places = list[str]()
        self.problems = list[str]()
        self.notes = list[str]()
        self.indexes = list[str]()
        self.urls = list[str]()
        self.backend = ""

    def installs(self) -> Installs:
        return Installs(
            trees=tuple(self.trees),
            places=tuple(self.places),
            problems=tuple(dict.fromkeys(self.problems)),
            notes=tuple(dict.fromkeys(self.notes)),
            indexes=tuple(dict.fromkeys(self.indexes)),
            urls=tuple(self.urls),
            backend=self.backend,
        )

    def line(self, words: list[str | None], depth: int) -> None:
        """The arguments of a command, or one line of a requirements file."""
        while words:
            word = words.pop(0)
            if word is None:
                self.problems.append("its packages are computed when it runs")
                continue
            name, equals, value = word.partition("=") if word.startswith("-") else ("", "", "")
            if not name and not word.startswith("-"):
                self.package(word)
            elif name in (*FILES, *CONSTRAINTS, *INDEX_OPTIONS, *ELSEWHERE, *VALUED):
                given = value if equals else words.pop(0) if words else None
                self.option(name, given, depth)
            elif word[:2] in ("-r", "-c") and not word.startswith("--") and len(word) > 2:
                self.option(word[:2], word[2:], depth)
            elif word not in FLAGS:
                self.problems.append(f"its option {name} is not known here")
                self.unsure = True  # what follows may be its value
            elif word in ("--no-deps", "--no-dependencies"):
                self.notes.append("it asks for no dependencies; the lock adds those that the image lacks")
            elif word in ("--pre", "-U", "--upgrade"):
                self.notes.append(f"{word}: the lock takes one release and keeps it")

    def option(self, name: str, value: str | None, depth: int) -> None:
        """An option with a value."""
        if value is None and name in INDEX_OPTIONS:
            self.indexes.append("an index that is known only when it runs")
        elif value is None:
            self.problems.append(f"{name} has a value that is known only when it runs")
        elif name in (*FILES, *CONSTRAINTS):
            self.file(value, constraint=name in CONSTRAINTS, depth=depth)
        elif name in INDEX_OPTIONS:
            if value.rstrip("/") not in PYPI:
                self.indexes.append(public(value) if "://" in value else value)
        elif name == "--torch-backend":
            self.backend = value
            self.notes.append(f"{name} {value}: the lock takes torch as its index has it")
        elif name in ELSEWHERE:
            self.problems.append(f"{name} {value}: no plain install of a wheel")

    def file(self, path: str, *, constraint: bool, depth: int) -> None:
        """A requirements file: its lines, and those of the files that it names."""
        path = posixpath.join(self.folder, path) if "://" not in path else path
        text = self.read(path) if "://" not in path else None
        if text is None or depth >= DEEPEST:
            self.problems.append(f"{path} is not among the files that it copies")
            return
        before, above = len(self.requirements), self.folder
        self.folder = posixpath.dirname(path)
        self.rows(text, path, depth)
        self.folder = above
        if constraint:
            self.constraints += self.requirements[before:]
            del self.requirements[before:]

    def rows(self, text: str, path: str, depth: int) -> None:
        """The lines of a requirements file."""
        for row in re.sub(r"\\\n", " ", text).splitlines():
            line = re.sub(r"(^|\s)#.*", "", row).strip()
            self.count += bool(line)
            if self.count > MOST:
                self.problems.append(f"{path} has more than {MOST:,} lines")
                return
            bare = re.sub(r"\s--hash[= ]\S+", "", line).strip()
            if bare != line:
                self.notes.append("hashes of a requirements file give way to those of the lock")
            if bare.startswith("-"):
                self.line(list(bare.split()), depth + 1)
            elif bare:
                self.package(bare)

    def package(self, text: str) -> None:
        """A requirement, a URL, a wheel or a folder."""
        name, at, url = (part.strip() for part in text.partition("@"))
        if at and "://" in url and re.fullmatch(r"[\w.\[\],-]+", name):
            self.url(url)
        elif "://" in text:
            self.url(text)
        elif text.startswith((".", "/", "~")) or text.endswith((".whl", ".tar.gz", ".zip")) or "/" in text:
            self.places.append(text)
        else:
            try:
                parse_requirement(text)
            except InvalidRequirement:
                self.problems.append(f"{text[:80]!r} is no requirement")
            else:
                self.requirements.append(text)

    def url(self, text: str) -> None:
        """Sources in git, an archive of a commit, or a file on the web."""
        if text.startswith("git+"):
            self.trees.append(git_tree(text.removeprefix("git+")))
        elif archive := ARCHIVE.fullmatch(text.partition("#")[0]):
            self.trees.append(Tree(url=f"{archive[1]}.git", ref=archive[2]))
        else:
            self.problems.append(f"{public(text)} is a file of the web that no index has")
            self.urls.append(text)


def git_tree(text: str) -> Tree:
    """``URL[@REF][#…]`` of a repository."""
    url = text.partition("#")[0]
    head, at, ref = url.rpartition("@")
    named = at and re.fullmatch(r"[a-z+]+://[^/]+/.+", head)  # the sign before a host ends a login
    return Tree(url=public(head), ref=ref) if named else Tree(url=public(url))


APT: Final = ("apt-get", "apt", "apt-fast", "aptitude")


def apt_packages(words: Sequence[str | None]) -> tuple[str, tuple[str | None, ...]] | None:
    """The subcommand of apt and its packages; None for another program."""
    left = without_prefix(words)
    if not left or (left[0] or "").rsplit("/", 1)[-1] not in APT:
        return None
    rest, valued = list[str | None](), False
    for word in left[1:]:
        if valued:
            valued = False
        elif word and word.startswith("-"):
            valued = word in ("-o", "-t", "-c", "--option", "--target-release")
        else:
            rest.append(word)
    return (rest[0] or "", tuple(rest[1:])) if rest else ("", ())


def git_clone(words: Sequence[str | None]) -> tuple[Tree, str] | None:
    """Repository and folder of ``git clone``; None for another command, an empty folder where it is not known."""
    left = list(without_prefix(words))
    if not left or (left[0] or "").rsplit("/", 1)[-1] != "git":
        return None
    places = list(_git_words(left[1:]))
    if not places or places[0][1] != "clone":
        return None
    branch = next((value or "" for option, value in places if option in ("-b", "--branch")), "")
    plain = [value for option, value in places[1:] if not option]
    url = plain[0] if plain else None
    tree = Tree(url=public(url), ref=branch) if url else Tree(url="a repository that is known only when it runs")
    last = (url or "").rstrip("/").rpartition("/")[2].removesuffix(".git")
    return tree, (plain[1] or "") if len(plain) > 1 else last


def git_checkout(words: Sequence[str | None]) -> tuple[str, str] | None:
    """Folder (empty: the current one) and commit of ``git checkout``; None for another command."""
    left = list(without_prefix(words))
    if not left or (left[0] or "").rsplit("/", 1)[-1] != "git":
        return None
    places = list(_git_words(left[1:]))
    plain = [value for option, value in places if not option]
    if plain[:1] not in (["checkout"], ["reset"], ["switch"]) or len(plain) < 2:
        return None
    return next((value or "" for option, value in places if option == "-C"), ""), plain[1] or ""


def _git_words(words: Sequence[str | None]) -> Iterator[tuple[str, str | None]]:
    """Options with their values, and plain words."""
    left = list(words)
    while left:
        word = left.pop(0)
        if word and word.startswith("-"):
            name, equals, value = word.partition("=")
            takes = name in ("-b", "--branch", "-C", "-c", "--depth", "--jobs", "-j", "--filter", "--reference", "-o")
            yield name, value if equals else left.pop(0) if takes and left else ""
        else:
            yield "", word
