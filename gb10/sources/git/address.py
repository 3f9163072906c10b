"""URLs of git repositories that are read. Pure."""

from typing import Final
from urllib.parse import SplitResult, urlsplit

from gb10.sources.web import HERE

SCHEMES: Final = ("https", "ssh", "file")


def split_git_url(url: str) -> SplitResult | None:
    """The parts of a URL; None for one that is not read: http is for this machine alone.

    Raises ValueError for one that is none.
    """
    parts = urlsplit(url)
    local = parts.scheme == "http" and parts.hostname in HERE
    return parts if url.isprintable() and " " not in url and (parts.scheme in SCHEMES or local) else None
