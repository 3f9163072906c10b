"""Submodules of a tree from git: the commit and the URL that their parent names. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from gb10.core.fetch import redact
from gb10.core.files import Checkout
from gb10.errors import FetchError

LINK: Final = "160000"
"""git's mode of an entry that stands for a commit of another repository."""
LONGEST: Final = 2000
"""Characters of a URL."""
SCHEMES: Final = ("https", "ssh")
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
        found = joined(parent, named) if is_url(named) else ""
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


def joined(base: str, url: str) -> str:
    """The URL that a parent means: ``./`` and ``../`` start from its own, as in git."""
    if not url.startswith(("./", "../")):
        return url
    parts = urlsplit(base)
    path = parts.path.rstrip("/")
    while url.startswith(("./", "../")):
        word, _, url = url.partition("/")
        path = path.rpartition("/")[0] if word == ".." else path
    return urlunsplit(parts._replace(path=f"{path}/{url}"))
