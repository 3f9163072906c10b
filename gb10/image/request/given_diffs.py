"""Diffs given by hand, by source: what a diff changes of each, and of the projects that bundle it."""

import hashlib
import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from gb10.core.fetch import accept, stored
from gb10.core.fields import Architecture
from gb10.core.files import Artifact, digest
from gb10.core.host import Host
from gb10.core.store import Store, note_use
from gb10.errors import FetchError, UsageError
from gb10.image.context import Context
from gb10.image.patches.diff import MOST_BYTES, check_diff, check_size
from gb10.image.patches.foreign import find_foreign
from gb10.image.patches.owners import Divided, Part, below, divide, only
from gb10.image.patches.releases import load_releases
from gb10.image.patches.selection import Place, find_place, locked_releases
from gb10.image.patches.series import load_series
from gb10.image.patches.verdict import variants_for
from gb10.image.plan.options import PatchUse
from gb10.image.plan.values import used_sources
from gb10.image.recipe.image_recipe import Recipe
from gb10.image.recipe.locked import Lock
from gb10.image.request.pinned_download import downloaded_file, pinned_sha256, write_note
from gb10.sources.web import check_url, fetch_small, name_of, public

SECTION: Final = "diffs"
SOME: Final = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class SplitDiffs:
    """``--patch`` by source: each as ``SOURCE=FILE``. ``origins``: the user's file of each file that was made here."""

    texts: tuple[str, ...] = ()
    origins: Mapping[str, str]


def by_source(ctx: Context, recipe: Recipe, lock: Lock, target: Architecture, texts: Sequence[str]) -> SplitDiffs:
    """The diffs, each of one source, with the paths of its archives. Writes parts to the store, and prints them.

    A source that an archive bundles is compiled by two: by what is compiled over the bundled one, and by the project
    of the archive, whose wheel brings it, too, for what is compiled at run time. A diff of it changes all of these.

    Raises PatchError and UsageError for what is no diff, or for paths of no source.
    """
    root = ctx.catalog.patches
    releases, used = load_releases(root).with_own(recipe.whole_sources), used_sources(recipe, lock)
    locked = locked_releases(used, target)
    found, origins = list[str](), dict[str, str]()
    for text in texts:
        source, file_or_folder = split_source(text)
        if source:
            releases.source(source)
        for file in find_foreign(Path(file_or_folder)):
            check_size(file.stat().st_size, file.name)
            check_diff(file.read_bytes(), file.name)
            divided = divide(file.read_bytes(), file.name, releases, source or None)
            _say(ctx, file.name, divided)
            for part in divided.parts:
                place = find_place(releases, part.source, used, locked)
                for one in _parts(ctx, recipe, part, place, file.name):
                    as_given = divided.whole and one is part
                    path = file if as_given else _stored_part(ctx.store, file.name, one.text)
                    origins[str(path.absolute())] = str(file.absolute())
                    found.append(f"{one.source}={path}")
    return SplitDiffs(texts=tuple(dict.fromkeys(found)), origins=origins)


def with_origins(uses: Iterable[PatchUse], urls: Mapping[str, str], origins: Mapping[str, str]) -> tuple[PatchUse, ...]:
    """The patches with where they are from: the sha256 of the whole diff with its parts, the URL with those of the web.

    ``origins``: the diff that each part was made from; ``urls``: those of the files that were downloaded.
    """
    found = ((use, origins.get(use.path or "", "")) for use in uses)
    return tuple(
        replace(use, whole=_whole(origin, use), url=urls.get(origin or use.path or "", "")) for use, origin in found
    )


def _whole(origin: str, use: PatchUse) -> str:
    return hashlib.sha256(Path(origin).read_bytes()).hexdigest() if origin and origin != use.path else ""


def split_source(text: str) -> tuple[str, str]:
    """``SOURCE=FILE``; the source is empty where none is named."""
    source, _, place = text.partition("=") if "=" in text and not Path(text).exists() else ("", "", text)
    return source, place


def _parts(ctx: Context, recipe: Recipe, part: Part, place: Place | None, name: str) -> Iterator[Part]:
    """A part of a diff; one of a bundled source also as a change of the source that bundles it."""
    releases = load_releases(ctx.catalog.patches).with_own(recipe.whole_sources)
    if place is None or not place.folder:
        yield part
        if place and releases.source(part.source).told and any(one.method == "aot" for one in recipe.built.values()):
            ctx.reporter.say(f"{name}: FlashInfer's kernels keep the {part.source} that FlashInfer brings")
        return
    if place.project in {recipe.project(one.cutlass_source) for one in recipe.built.values() if one.method != "aot"}:
        yield part
    around = next(source for source, known in releases.sources.items() if place.project in known.projects)
    # Files that only our own series adds are left out: the project that bundles the source has none of these.
    ours = variants_for(load_series(ctx.catalog.patches, part.source), place.version)
    added = {path for patch in ours if patch.applies_to(place.version) for path in patch.files}
    kept = only(part, {diff.path for diff in part.diffs if diff.path not in added or diff.kind == "add"})
    if kept.diffs:
        ctx.reporter.detail(f"{name}: {around} brings {part.source} in {place.folder}, and is patched, too")
        yield below(kept, place.folder, around)


def _say(host: Host, name: str, divided: Divided) -> None:
    if len(divided.parts) > 1:
        counts = ", ".join(f"{part.source} {len(part.diffs)}" for part in divided.parts)
        host.reporter.say(f"{name}: files of several sources: {counts}")
    if divided.moved:
        old, new = next(iter(divided.moved.items()))
        many = f", and {len(divided.moved) - 1} more" if len(divided.moved) > 1 else ""
        host.reporter.say(f"{name}: {old} is read as {new}{many}")
    if divided.unread:
        host.reporter.say(f"{name}: left out, nothing in an image reads them: {_some(divided.unread)}")


def _some(paths: Collection[str]) -> str:
    shown = [*paths][:SOME]
    return ", ".join(shown) + (f", and {len(paths) - SOME} more" if len(paths) > SOME else "")


def _stored_part(store: Store, name: str, text: bytes) -> Path:
    """A part in the store, under the name of the user's file."""
    entry = store.entry(SECTION, digest([name, text.decode("utf-8", "surrogateescape")]))

    def write(work: Path) -> None:
        (work / name).write_bytes(text)

    with store.locked(f"diff-{entry.name}"):
        if not entry.exists():
            store.replace(entry, write)
        note_use(entry / name)
    return entry / name


DOWNLOADED: Final = "urls"
WEB: Final = re.compile(r"(?:([a-z0-9][a-z0-9._-]*)=)?([A-Za-z][A-Za-z0-9+.-]*://.*)", re.DOTALL)
PIN: Final = re.compile(r"sha256=([0-9a-f]{64})")
OTHERWISE: Final = "fetched.diff"


@dataclass(frozen=True, kw_only=True, slots=True)
class WebDiff:
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
        named = _web_diff(match[1] or "", match[2])
        path = _downloaded(host, named)
        urls[str(path)] = public(named.url)
        found.append(f"{named.source}={path}" if named.source else str(path))
    return tuple(found), urls


def _web_diff(source: str, text: str) -> WebDiff:
    url, hashed, fragment = text.partition("#")
    check_url(url)
    pin = PIN.fullmatch(fragment)
    if hashed and pin is None:
        raise UsageError(
            f"--patch {public(url)}: after # comes the sha256 that the diff must have",
            where=f"found #{fragment[:100]}",
            hint=f"--patch {public(url)}#sha256=<64 digits>, or leave it out",
        )
    return WebDiff(source=source, url=url, sha256=pin[1] if pin else "")


def _downloaded(host: Host, named: WebDiff) -> Path:
    """The diff in the store: the pinned one, else the one that this URL gave before, else fetched now."""
    note = host.store.entry(DOWNLOADED, digest(named.url)) / named.filename
    with host.store.locked(f"url-{note.parent.name}", host.reporter.waiting_for(named.filename)):
        known = pinned_sha256(note)
        wanted = named.sha256 or known
        path = downloaded_file(host, named.filename, wanted) if wanted else None
        if path is None:
            return _fetched(host, named, note, known)
        if not named.sha256:
            day = time.strftime("%Y-%m-%d", time.gmtime(note.stat().st_mtime))
            host.reporter.say(f"{public(named.url)}#sha256={known}: fetched on {day}; to fetch it again, remove {note}")
        return path


def _fetched(host: Host, named: WebDiff, note: Path, known: str) -> Path:
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
