"""The files of a Dockerfile's build context: read bounded, without following a link, and laid out as COPY does."""

import fnmatch
import posixpath
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Final

from gb10.errors import UsageError
from gb10.image.adopt.ignore_file import MOST_BYTES as MOST_RULE_BYTES
from gb10.image.adopt.ignore_file import Rule, exclude_rules, is_left_out, read_rules

MOST_FILES: Final = 10_000
MOST_BYTES: Final = 256 << 20
"""Of all files that are copied together."""
DEEPEST: Final = 32
WILD: Final = re.compile(r"[*?\[]")
IGNORED: Final = (".git",)
FOLDERS: Final = frozenset(("/", "/tmp", "/opt", "/etc", "/root", "/home", "/workspace", "/app", "/usr/local/bin"))  # noqa: S108 - folders that images have
EXECUTABLE: Final = 0o111


class AbsentError(Exception):
    """A file that the build copies cannot be taken; the text says why."""


@dataclass(frozen=True, slots=True)
class BuildFile:
    """One file; ``source`` is its path in the build context, empty for a text of the Dockerfile itself.

    ``link``: where a link leads; it is copied as a link, and never followed.
    """

    source: str
    content: bytes
    executable: bool = False
    link: str = ""


def ignore_rules(dockerfile: Path, root: Path) -> tuple[Rule, ...]:
    """What a build does not see: by NAME.dockerignore beside the Dockerfile, else by .dockerignore of the context.

    Raises UsageError for a file that Docker refuses, and for one that is a link.
    """
    for path in (dockerfile.with_name(f"{dockerfile.name}.dockerignore"), root / ".dockerignore"):
        if path.is_symlink():
            raise UsageError(f"{path} is a link, and links are not followed", hint="copy the file there")
        if path.is_file():
            with path.open("rb") as file:
                return read_rules(file.read(MOST_RULE_BYTES + 1), path.name)
    return ()


class BuildFiles:
    """A build context, without what its ``rules`` leave out; a file is read when it is copied."""

    def __init__(self, root: Path, rules: tuple[Rule, ...] = (), *, links: bool = False) -> None:
        """``links``: those in a folder that is copied are taken, as links. Raises UsageError when ``root`` is none."""
        if not root.is_dir():
            raise UsageError(f"the build context {root} is no folder", hint="give a folder: --context DIR")
        self.root = root
        self.rules = rules
        self.links = links
        self.left = MOST_BYTES
        self.count = 0
        self.unmatched: tuple[str, ...] = ()
        """Wildcards of the last COPY that mean no file, beside sources that mean some."""

    def copied(
        self, sources: tuple[str, ...], target: str, *, parents: bool = False, without: tuple[Rule, ...] = ()
    ) -> dict[str, BuildFile]:
        """The files of a COPY by their absolute path in the image. Raises AbsentError.

        ``parents``: they keep the folders above them, those behind ``/./`` where a source has it. ``without``: what is
        left out of each folder that is copied, with ``parents`` of what they keep.
        """
        found: dict[str, BuildFile] = {}
        places = {one: self._kept(one) if parents else dict.fromkeys(self._matches(one), "") for one in sources}
        self.unmatched = tuple(source for source, paths in places.items() if not paths)
        if len(self.unmatched) == len(places):
            raise AbsentError(f"{sources[0]} is not in the build context{self._why_not(sources[0])}")
        for paths in places.values():
            several = len(sources) > 1 or len(paths) > 1
            into = several or target.endswith("/") or posixpath.normpath(target) in FOLDERS
            for place, name in paths.items():
                if not parents:
                    found |= self._one(place, target, without, into=into)
                elif not is_left_out(name, without):
                    found[posixpath.normpath(f"{target}/{name}")] = self.read(place)
        return found

    def _kept(self, source: str) -> dict[str, str]:
        """The files that a source of ``--parents`` means, with the path that they keep: from the root, or from what is
        before ``/./``. Its pattern fits that path or a folder above it. Raises AbsentError."""
        pivot, kept, rest = source.partition("/./")
        pivot, rest = (pivot, rest) if kept else ("", source)
        parts = _parts(rest)
        known = [*takewhile(lambda part: not WILD.search(part), parts)]
        try:
            rules = exclude_rules(["/".join(parts) or "**"])
        except UsageError as error:
            raise AbsentError(f"{source[:200]} is no pattern of Docker's") from error
        found = dict[str, str]()
        for root in self._matches(pivot):
            start = "/".join(filter(None, (root, *known)))
            kind = self._kind(start)
            paths = [start] if kind == "file" else self._below(start) if kind else ()
            names = {path: posixpath.relpath(path, root or ".") for path in paths}
            found |= {path: name for path, name in names.items() if is_left_out(name, rules)}
        if not found and not WILD.search(source):
            raise AbsentError(f"{source} is not in the build context{self._why_not(source)}")
        return found

    def _one(self, place: str, target: str, without: tuple[Rule, ...], *, into: bool) -> dict[str, BuildFile]:
        """A file, or what is in a folder."""
        start = posixpath.normpath(target)
        if (self.root / place).is_dir():
            inside = {posixpath.relpath(path, place or "."): path for path in self._below(place)}
            if not inside:
                raise AbsentError(f"{place or '.'} has no file here: a submodule, or all of it is left out")
            taken = {name: path for name, path in inside.items() if not is_left_out(name, without)}
            return {posixpath.normpath(f"{start}/{name}"): self.read(path) for name, path in taken.items()}
        name = posixpath.basename(place)
        if is_left_out(name, without):
            raise AbsentError(f"--exclude means {name}, which is copied by its own name: builders do not agree on it")
        return {posixpath.normpath(f"{start}/{name}" if into else start): self.read(place)}

    def _matches(self, source: str) -> list[str]:
        """The paths in the context that a source means, none for wildcards that mean none; they stay within a folder.
        Raises AbsentError."""
        found = [""]
        for part in _parts(source):
            found = [
                path
                for folder in found
                for path in (self._names(folder, part) if WILD.search(part) else [f"{folder}/{part}".lstrip("/")])
                if self._kind(path) is not None
            ]
            if len(found) > MOST_FILES:
                raise AbsentError(f"{source} means more than {MOST_FILES:,} files")
        if not found and not WILD.search(source):
            raise AbsentError(f"{source} is not in the build context{self._why_not(source)}")
        return found

    def _why_not(self, source: str) -> str:
        path = "/".join(_parts(source))
        return ": .dockerignore leaves it out" if (self.root / path).exists() and is_left_out(path, self.rules) else ""

    def _names(self, folder: str, pattern: str) -> list[str]:
        try:
            names = sorted(path.name for path in (self.root / folder).iterdir())
        except OSError:
            return []
        return [f"{folder}/{name}".lstrip("/") for name in names if fnmatch.fnmatchcase(name, pattern)]

    def _kind(self, path: str, *, links: bool = False) -> str | None:
        """``file``, ``folder``, or ``link`` where links count; None for nothing and for what is left out. Raises
        AbsentError for any other link and for what is no plain file."""
        out = bool(path) and is_left_out(path, self.rules)
        try:
            mode = (self.root / path).lstat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:  # a name that is too long, or has a NUL
            raise AbsentError(f"{path[:200]!a} cannot be read: {error}") from error
        if stat.S_ISDIR(mode):
            return "folder" if not out or any(rule.back for rule in self.rules) else None
        if out:
            return None
        if links and stat.S_ISLNK(mode):
            return "link"
        if not stat.S_ISREG(mode):
            what = "a link, and links are not followed" if stat.S_ISLNK(mode) else "no plain file"
            raise AbsentError(f"{path} is {what}")
        return "file"

    def _below(self, folder: str, depth: int = 0) -> Iterator[str]:
        """Every file below a folder; raises AbsentError."""
        if depth > DEEPEST:
            raise AbsentError(f"{folder} is more than {DEEPEST} folders deep")
        for name in sorted(path.name for path in (self.root / folder).iterdir()):
            path = f"{folder}/{name}".lstrip("/")
            if name in IGNORED:
                continue
            kind = self._kind(path, links=self.links)
            if kind == "folder":
                yield from self._below(path, depth + 1)
            elif kind:
                yield path

    def read(self, path: str) -> BuildFile:
        """One file of the context; raises AbsentError."""
        place = self.root / path
        kind = self._kind(path, links=self.links)
        try:
            if kind == "link" and not (target := str(place.readlink())).isprintable():
                raise AbsentError(f"{path} is a link to {target[:200]!a}, which no recipe can have")
            if kind == "link":
                self.count += 1
                return BuildFile(path, b"", link=str(place.readlink()))
            with place.open("rb") as file:
                content = file.read(self.left + 1)
            mode = place.stat().st_mode
        except OSError as error:
            raise AbsentError(f"{path} cannot be read: {error.strerror}") from error
        self.count += 1
        self.left -= len(content)
        if self.left < 0 or self.count > MOST_FILES:
            raise AbsentError(f"it copies more than {MOST_BYTES >> 20} MiB or {MOST_FILES:,} files")
        return BuildFile(path, content, bool(mode & EXECUTABLE))


def _parts(source: str) -> list[str]:
    """The names of a path in the context. Raises AbsentError for one that leads out, or is deeper than people write."""
    parts = [part for part in source.split("/") if part not in ("", ".")]
    if ".." in parts or len(parts) > DEEPEST:
        raise AbsentError(f"{source} leads out of the build context")
    return parts
