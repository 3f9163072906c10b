"""Locked wheels and source archives into the store: four streams, accepted by hash."""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from pathlib import Path

from gb10.core.fetch import download, stored
from gb10.core.files import Artifact
from gb10.core.store import Store
from gb10.sources.index.client import Folder, Index, locate, open_index_session, sources
from gb10.sources.index.pip_settings import read_settings

STREAMS = 4


def fetch_all(
    files: Iterable[Artifact],
    store: Store,
    env: Mapping[str, str],
    on_bytes: Callable[[int], None] = lambda count: None,
) -> dict[str, Path]:
    """Each file by its sha256, in the store; only absent ones are fetched. Raises FetchError, UsageError.

    A file whose recipe names an index for it comes from there, or from a folder of this machine (its sha256 decides):
    it comes from no other index, and no other file comes from that one.
    ``on_bytes`` gets the bytes of each block as it arrives, from any of the streams.
    """
    wanted = {file.sha256: file for file in files}
    absent = [artifact for artifact in wanted.values() if not stored(store, artifact).exists()]
    if absent:
        _fetch(absent, store, env, on_bytes)
    return {sha256: stored(store, artifact) for sha256, artifact in wanted.items()}


def _fetch(absent: list[Artifact], store: Store, env: Mapping[str, str], on_bytes: Callable[[int], None]) -> None:
    session = open_index_session(env)
    places = sources(session, read_settings(env))
    folders = [place for place in places if isinstance(place, Folder)]

    stop = threading.Event()

    def on_block(count: int) -> None:
        if stop.is_set():
            raise CancelledError
        on_bytes(count)

    def fetch(artifact: Artifact) -> None:
        named: Sequence[Index | Folder] = (*folders, Index(session, artifact.index)) if artifact.index else places
        download(session, store, artifact, lambda: locate(named, artifact), on_block)

    largest_first = sorted(absent, key=lambda artifact: -artifact.size)
    with ThreadPoolExecutor(STREAMS) as pool:
        try:
            list(pool.map(fetch, largest_first))
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise
