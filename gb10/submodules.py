"""Submodules of a tree from git: at which commit, and where, as their parent says. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from gb10.artifact import Checkout
from gb10.errors import FetchError
from gb10.fetch import redact

LINK: Final = "160000"
"""git's mode of an entry that stands for a commit of another repository."""
SCHEMES: Final = ("https", "ssh", "file")


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One entry of a tree: a file, or a link to another repository's commit."""

    mode: str
    object: str


@dataclass(frozen=True, slots=True)
class Tree:
    """What lies where, of a checkout and of the submodules that are in it by now; ``read`` reads a .gitmodules."""

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
        said = _url_of(self.read(modules.object), path.removeprefix(owner).lstrip("/")) if modules else ""
        found = joined(self.url(owner), said)
        if urlsplit(found).scheme not in SCHEMES:
            raise FetchError(
                f"the submodule {path} has no URL that is taken: {redact(found) or 'none'}",
                where=redact(self.wanted.url),
                hint=f".gitmodules there must name one of {', '.join(f'{name}://' for name in SCHEMES)}",
            )
        return found


def _url_of(modules: str, path: str) -> str:
    """The URL that a .gitmodules has for a path: ``submodule.<name>.<path|url> <value>`` lines."""
    settings = dict(line.partition(" ")[::2] for line in modules.splitlines())
    named = next((key.removesuffix(".path") for key, value in settings.items()
                  if key.endswith(".path") and value == path), "")  # fmt: skip
    return settings.get(f"{named}.url", "")


def joined(base: str, said: str) -> str:
    """The URL that a parent means: ``./`` and ``../`` go from its own, as git has it."""
    if not said.startswith(("./", "../")):
        return said
    parts = urlsplit(base)
    path = parts.path.rstrip("/")
    while said.startswith(("./", "../")):
        word, _, said = said.partition("/")
        path = path.rpartition("/")[0] if word == ".." else path
    return urlunsplit(parts._replace(path=f"{path}/{said}"))
