"""Files of indexes that forget, or give no hash: fetched once, hashed, noted, and never removed by ``cache gc``."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

import requests
from pydantic import ValidationError

from gb10.core.fetch import Place, accept, intact, redact, stored
from gb10.core.fields import Filename, Model, Name, Sha256, Size
from gb10.core.files import Artifact, digest
from gb10.core.http_session import transfer
from gb10.core.store import Store, file_sha256, note_use
from gb10.core.store_gc import KEPT
from gb10.errors import FetchError
from gb10.sources.index.client import NO_OBJECT, NOT_FOUND, Index, size_of
from gb10.sources.index.page import Link

LARGEST: Final = 4 << 30
"""Bytes of a file."""


class KeptFile(Model):
    """A file, and the page of an index that named it.

    The entry has the file's sha256 as name, and a note for each page and name by which that content was fetched.
    """

    index: str
    project: Name
    filename: Filename
    sha256: Sha256
    size: Size


def stored_links(store: Store, index: str, project: str) -> tuple[Link, ...]:
    """The files of a project that were kept of an index, where they lie in the store; damaged ones do not count."""
    return tuple(
        Link(filename=one.filename, url=stored(store, artifact).absolute().as_uri(), sha256=one.sha256, size=one.size)
        for one in _notes(store)
        if (one.index, one.project) == (index, project)
        and intact(store, artifact := Artifact(one.filename, one.sha256, one.size), lambda path: None)
    )


def _notes(store: Store) -> Iterator[KeptFile]:
    for path in sorted((store.root / KEPT).glob("*/*.json")):
        try:
            found = KeptFile.model_validate_json(path.read_bytes())
        except (
            OSError,
            ValidationError,
        ):  # removed meanwhile, or of another version of gb10: its file is fetched again
            continue
        note_use(path)
        yield found


class OwnIndex(Index):
    """The only index of some projects: files that were kept of it are there, even when it has forgotten them.

    ``forgets``: it is that of one commit.
    """

    def __init__(self, session: requests.Session, url: str, store: Store, *, forgets: bool) -> None:
        super().__init__(session, url, NO_OBJECT if forgets else (NOT_FOUND,))
        self.store = store

    def links(self, project: str) -> tuple[Link, ...]:
        """As of any index; one that cannot be asked has, and this is printed, what was kept of it.

        Raises FetchError when nothing was kept.
        """
        kept = stored_links(self.store, self.url, project)
        try:
            others = super().links(project)
        except FetchError as error:
            if not kept:
                raise
            warning = f"{error.message}; {len(kept)} files of {project} that were kept of it are all that counts"
            print(ascii(warning)[1:-1], file=sys.stderr, flush=True)
            others = ()
        names = {link.filename for link in kept}
        return (*kept, *(link for link in others if link.filename not in names))

    def keep(self, project: str, link: Link, on_bytes: Callable[[int], None] = lambda count: None) -> Link:
        """The file of a link, fetched if the store lacks it; the link of its place there. Raises FetchError."""
        store, name = self.store, digest([self.url, link.filename])
        with store.locked(f"download-{name}"):
            known = next((one for one in stored_links(store, self.url, project) if one.filename == link.filename), None)
            if known:
                return known
            part = store.root / "tmp" / f"{name}.part"
            part.parent.mkdir(parents=True, exist_ok=True)
            size = size_of(self.session, link)
            if size > LARGEST:
                raise FetchError(f"{link.filename} has more than {LARGEST >> 30} GiB", where=redact(link.url))
            transfer(self.session, Place(link.url), part, Artifact(link.filename, "", size), on_bytes)
            artifact = Artifact(link.filename, link.sha256 or file_sha256(part), size)
            final = stored(store, artifact)
            accept(part, artifact, final)
            note = KeptFile(index=self.url, project=project, filename=link.filename, sha256=artifact.sha256, size=size)
            with store.locked(f"kept-{artifact.sha256}"):
                store.write_text(store.entry(KEPT, artifact.sha256) / f"{name}.json", note.model_dump_json())
        return replace(link, url=final.absolute().as_uri(), sha256=artifact.sha256, size=size)
