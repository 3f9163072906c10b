"""Where a registry of recipes comes from: a URL or a path as the user writes it. Reads nothing but file types."""

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from gb10.core.proc import without_logins
from gb10.errors import UsageError
from gb10.models.registries.registry import NAME, Kind
from gb10.sources.git.address import split_git_url
from gb10.sources.web import LONGEST, SHOWN

SUFFIXES: Final = (".yaml", ".yml")
SHORT: Final = re.compile(r"(?P<login>[\w.-]+@[\w.-]+):(?P<path>[^/\s:][^\s:]*)")
"""git's own short form of an ssh URL: git@HOST:PATH."""
REF: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/+-]{0,199}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """``source``: a URL, or an absolute path. ``name``: what its registry is called by itself."""

    kind: Kind
    source: str
    name: str


def origin_of(text: str) -> Origin:
    """The origin that a text means; raises UsageError for what is none, and for a URL with a password."""
    short = SHORT.fullmatch(text)
    url = f"ssh://{short['login']}/{short['path']}" if short else text
    if "://" in url:
        return _of_url(url)
    path = Path(text).expanduser().absolute()
    if (path / ".git").exists() or (path / "HEAD").is_file():
        return Origin(kind="git", source=path.as_uri(), name=_name(path.name.removesuffix(".git")))
    if path.is_dir():
        return Origin(kind="folder", source=str(path), name=_name(path.name))
    if path.is_file() and path.suffix in SUFFIXES:
        return Origin(kind="file", source=str(path), name=_name(path.stem))
    problem = "is no recipe (.yaml, .yml)" if path.exists() else "does not exist"
    raise UsageError(f"{text[:SHOWN]} {problem}", hint="name a git repository by its URL, a folder, or a recipe file")


def _of_url(url: str) -> Origin:
    shown = ascii(without_logins(url))[1:-1][:SHOWN]
    try:
        parts = split_git_url(url)
    except ValueError as error:
        raise UsageError(f"{shown}: the URL cannot be read: {error}", hint="write https://HOST/PATH") from error
    if parts is None or len(url) > LONGEST:
        raise UsageError(f"{shown} is no URL that is read", hint="write https://HOST/PATH (or ssh://, file://)")
    if parts.password is not None or (parts.username and parts.scheme != "ssh"):
        hint = "leave it out, and give it to git: git credential approve, or a credential helper"
        raise UsageError(f"{shown}: the URL holds a login, which would be kept in a file", hint=hint)
    path = PurePosixPath(parts.path)
    if path.suffix in SUFFIXES and parts.scheme == "file":
        return origin_of(parts.path)
    if path.suffix in SUFFIXES and parts.scheme != "ssh":
        return Origin(kind="web", source=url, name=_name(path.stem))
    return Origin(kind="git", source=url.rstrip("/"), name=_name(path.name.removesuffix(".git")))


def _name(text: str) -> str:
    """A name made of a file's or folder's."""
    found = re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._")[:64]
    return found if re.fullmatch(NAME, found) else "recipes"


def check_registry_name(name: str) -> str:
    """The name of ``--name``, without a leading @; raises UsageError."""
    bare = name.removeprefix("@")
    if re.fullmatch(NAME, bare) is None:
        raise UsageError(f"{name[:SHOWN]!r} cannot be the name of a registry", hint="use letters, digits, . _ and -")
    return bare


def check_ref(ref: str) -> str:
    """The branch or tag of ``--ref``; raises UsageError."""
    if REF.fullmatch(ref) is None or ".." in ref:
        raise UsageError(f"{ref[:SHOWN]!r} is no branch and no tag", hint="write --ref main, or --ref v1.2")
    return ref
