"""Project pages of the simple API: JSON (PEP 691) or HTML (PEP 503) text in, links out. Pure."""

import json
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Final
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

JSON_TYPE = "application/vnd.pypi.simple.v1+json"
ACCEPT = f"{JSON_TYPE}, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"

REMOTE: Final = ("https", "http")
HERE: Final = "file"
"""The scheme of a file of this machine."""
MOST: Final = 100_000
"""Files of a project."""
LONGEST: Final = 255
"""Characters of a file's name, and of what an error quotes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """One file that an index offers; ``sha256`` and ``size`` (bytes) where the index gives them."""

    filename: str
    url: str
    sha256: str | None = None
    size: int | None = None
    yanked: bool = False


def is_json(content_type: str) -> bool:
    """Whether a page is in the JSON form, as its server calls it."""
    return content_type.partition(";")[0].strip() == JSON_TYPE


def parse_page(text: str, content_type: str, base: str) -> tuple[Link, ...]:
    """The files of a project page that was read from ``base``; raises ValueError when it is no such page.

    Only a page of this machine may name a file of this machine.
    """
    if is_json(content_type):
        return tuple(_json_link(entry, base) for entry in _json_files(text))
    page = _Page(base)
    try:
        page.feed(text)
    except AssertionError as error:  # how html.parser refuses a damaged declaration
        raise ValueError(str(error)) from error
    return tuple(page.links)


def _json_files(text: str) -> list[object]:
    try:
        page = json.loads(text)
    except RecursionError as error:
        raise ValueError("it nests too deeply") from error
    files = page.get("files") if isinstance(page, dict) else None
    if not isinstance(files, list):
        raise ValueError("it has no list of files")
    if len(files) > MOST:
        raise ValueError(f"it has more than {MOST} files")
    return files


def _json_link(entry: object, base: str) -> Link:
    if not isinstance(entry, dict):
        raise ValueError("a file is not an object")
    name, url, size = entry.get("filename"), entry.get("url"), entry.get("size")
    if not isinstance(name, str) or not isinstance(url, str) or not is_filename(name):
        raise ValueError(f"a file has no usable name and url: {ascii(name)[:LONGEST]}")
    found = resolved(base, url)
    if found is None:
        raise ValueError(f"{name} has an url that is not read: {ascii(url)[:LONGEST]}")
    hashes = entry.get("hashes")
    sha256 = hashes.get("sha256") if isinstance(hashes, dict) else None
    return Link(
        filename=name,
        url=found,
        sha256=sha256 if isinstance(sha256, str) else None,
        size=size if isinstance(size, int) and not isinstance(size, bool) and size >= 0 else None,
        yanked=bool(entry.get("yanked")),
    )


def is_filename(name: str) -> bool:
    """Whether a name is that of one file, and no path."""
    return 0 < len(name) <= LONGEST and name.isprintable() and "/" not in name and name not in (".", "..")


def resolved(base: str, url: str) -> str | None:
    """The URL that a page at ``base`` means; None for a scheme that is not read.

    Raises ValueError for a file of this machine on a page that is not.
    """
    found = urljoin(base, url.strip())
    scheme, local = urlsplit(found).scheme, urlsplit(base).scheme == HERE
    if scheme == HERE and not local:
        raise ValueError(f"it names a file of this machine: {ascii(found)[:LONGEST]}")
    return found if scheme in (*REMOTE, HERE) else None


class _Page(HTMLParser):
    """Anchors of a page, each with the hash that its fragment holds."""

    def __init__(self, base: str) -> None:
        super().__init__()
        self.base = base
        self.links: list[Link] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        href = values.get("href")
        url = resolved(self.base, href) if tag in ("a", "base") and href else None
        if tag == "base" and url:
            self.base = url
        elif tag == "a" and url:
            self._add(*urldefrag(url), yanked="data-yanked" in values)

    def _add(self, url: str, fragment: str, *, yanked: bool) -> None:
        """Add an anchor that names a file; others are for people, as the one to the folder above."""
        filename = unquote(urlsplit(url).path.rpartition("/")[2])
        name, _, value = fragment.partition("=")
        if is_filename(filename):
            sha256 = value if name == "sha256" else None
            self.links.append(Link(filename=filename, url=url, sha256=sha256, yanked=yanked))
