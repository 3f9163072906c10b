"""``--patch URL``: a diff from the web, fetched once; the store keeps it by its sha256."""

import hashlib
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from gb10.core.fetch import accept, stored
from gb10.core.files import Artifact, digest
from gb10.core.host import Host
from gb10.errors import FetchError, UsageError
from gb10.image.plan.options import PatchUse
from gb10.image.request.noted import kept, noted, write_note
from gb10.patches.diff import MOST_BYTES
from gb10.patches.no_diff import check_diff
from gb10.sources.web import check_url, fetch_small, name_of, public

ROOM: Final = "urls"
WEB: Final = re.compile(r"(?:([a-z0-9][a-z0-9._-]*)=)?([A-Za-z][A-Za-z0-9+.-]*://.*)", re.DOTALL)
PIN: Final = re.compile(r"sha256=([0-9a-f]{64})")
OTHERWISE: Final = "fetched.diff"


@dataclass(frozen=True, kw_only=True, slots=True)
class Named:
    """A diff on the web as the user names it; ``sha256`` is empty without a pin."""

    source: str
    url: str
    sha256: str

    @property
    def filename(self) -> str:
        """The name that the store gives the file."""
        return name_of(self.url, OTHERWISE)


def from_web(host: Host, texts: Sequence[str]) -> tuple[tuple[str, ...], dict[str, str]]:
    """The patches with files in place of URLs, and the URL of each such file.

    Raises UsageError for a URL that is not fetched, FetchError, PatchError for what is no diff.
    """
    found, urls = [], dict[str, str]()
    for text in texts:
        match = WEB.fullmatch(text)
        if match is None:
            found.append(text)
            continue
        named = _named(match[1] or "", match[2])
        path = _kept(host, named)
        urls[str(path)] = public(named.url)
        found.append(f"{named.source}={path}" if named.source else str(path))
    return tuple(found), urls


def with_urls(uses: Iterable[PatchUse], urls: Mapping[str, str], origins: Mapping[str, str]) -> tuple[PatchUse, ...]:
    """The patches; those from the web carry their URL. ``origins``: the diff that each part was made from."""
    return tuple(replace(use, url=urls.get(origins.get(use.path or "", use.path or ""), "")) for use in uses)


def _named(source: str, text: str) -> Named:
    url, hashed, fragment = text.partition("#")
    check_url(url)
    pin = PIN.fullmatch(fragment)
    if hashed and pin is None:
        raise UsageError(
            f"--patch {public(url)}: after # comes the sha256 that the diff must have",
            where=f"found #{fragment[:100]}",
            hint=f"--patch {public(url)}#sha256=<64 digits>, or leave it out",
        )
    return Named(source=source, url=url, sha256=pin[1] if pin else "")


def _kept(host: Host, named: Named) -> Path:
    """The diff in the store: the pinned one, else the one that this URL gave before, else fetched now."""
    note = host.store.entry(ROOM, digest(named.url)) / named.filename
    with host.store.locked(f"url-{note.parent.name}", host.reporter.waiting_for(named.filename)):
        known = noted(note)
        wanted = named.sha256 or known
        path = kept(host, named.filename, wanted) if wanted else None
        if path is None:
            return _fetched(host, named, note, known)
        if not named.sha256:
            _say_kept(host, named, note)
        return path


def _fetched(host: Host, named: Named, note: Path, known: str) -> Path:
    with host.reporter.task(f"fetch {named.filename}"):
        text = fetch_small(host.env, named.url, MOST_BYTES)
    sha256 = hashlib.sha256(text).hexdigest()
    if named.sha256 and sha256 != named.sha256:
        raise FetchError(
            f"{public(named.url)} is not the diff that was pinned",
            where=f"expected sha256 {named.sha256}\n   found sha256 {sha256}",
            hint="read what changed, then pin the new sha256",
        )
    check_diff(text, named.filename, public(named.url))
    artifact = Artifact(named.filename, sha256, len(text))
    with host.store.folder("url") as work:
        (work / named.filename).write_bytes(text)
        accept(work / named.filename, artifact, stored(host.store, artifact))
    write_note(host, note, sha256)
    if known and known != sha256:
        host.reporter.say(f"{public(named.url)} gave another diff before: sha256 {known}")
    host.reporter.say(f"fetched {public(named.url)}#sha256={sha256}")
    return stored(host.store, artifact)


def _say_kept(host: Host, named: Named, note: Path) -> None:
    day = time.strftime("%Y-%m-%d", time.gmtime(note.stat().st_mtime))
    sha256 = noted(note)
    host.reporter.say(f"{public(named.url)}#sha256={sha256}: fetched on {day}; to fetch it again, remove {note}")
