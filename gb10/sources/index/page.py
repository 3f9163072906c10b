"""Project pages of the simple API: JSON (PEP 691) or HTML (PEP 503) text in, links out. Pure."""

import json
from dataclasses import dataclass
from html.parser import HTMLParser
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

JSON_TYPE = "application/vnd.pypi.simple.v1+json"
ACCEPT = f"{JSON_TYPE}, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """One file that an index offers; ``sha256`` and ``size`` (bytes) where the index says them."""

    filename: str
    url: str
    sha256: str | None = None
    size: int | None = None
    yanked: bool = False


def parse_page(text: str, content_type: str, base: str) -> tuple[Link, ...]:
    """The files of a project page that was read from ``base``; raises ValueError when it is no such page."""
    if content_type.partition(";")[0].strip() == JSON_TYPE:
        return tuple(_json_link(entry, base) for entry in json.loads(text)["files"])
    page = _Page(base)
    page.feed(text)
    return tuple(page.links)


def _json_link(entry: dict[str, object], base: str) -> Link:
    hashes, size = entry.get("hashes"), entry.get("size")
    return Link(
        filename=str(entry["filename"]),
        url=urljoin(base, str(entry["url"])),
        sha256=hashes.get("sha256") if isinstance(hashes, dict) else None,
        size=size if isinstance(size, int) else None,
        yanked=bool(entry.get("yanked")),
    )


class _Page(HTMLParser):
    """Anchors of a page, each with the hash that its fragment holds."""

    def __init__(self, base: str) -> None:
        super().__init__()
        self.base = base
        self.links: list[Link] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        href = values.get("href")
        if tag == "base" and href:
            self.base = urljoin(self.base, href)
        elif tag == "a" and href:
            url, fragment = urldefrag(urljoin(self.base, href))
            name, _, value = fragment.partition("=")
            self.links.append(
                Link(
                    filename=unquote(urlsplit(url).path.rpartition("/")[2]),
                    url=url,
                    sha256=value if name == "sha256" else None,
                    yanked="data-yanked" in values,
                )
            )
