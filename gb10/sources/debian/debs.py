"""Locked Debian packages from any mirror of the archive: by path, accepted by hash."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import requests

from gb10.core.artifact import Artifact
from gb10.core.fetch import download, redact
from gb10.core.store import Store
from gb10.errors import FetchError
from gb10.sources.debian.locked_deb import LockedDeb
from gb10.sources.debian.mirror import SETTING, mirror_url

STREAMS = 4
NOT_THERE = (404, 410)


def artifact(deb: LockedDeb) -> Artifact:
    """The package as a file of the store."""
    return Artifact(filename=deb.filename, sha256=deb.sha256, size=deb.size)


def fetch_debs(
    session: requests.Session,
    store: Store,
    env: Mapping[str, str],
    debs: Sequence[LockedDeb],
    on_bytes: Callable[[int], None] = lambda count: None,
) -> tuple[Path, ...]:
    """The packages' files in the store, in the order of ``debs``; only absent ones are fetched.

    Raises FetchError (among others when the mirror has dropped a pinned version) and UsageError (no mirror known).
    """

    def fetch(deb: LockedDeb) -> Path:
        try:
            return download(session, store, artifact(deb), lambda: _url(env, deb), on_bytes)
        except FetchError as error:
            raise _explained(error, env, deb) from error

    with ThreadPoolExecutor(STREAMS) as pool:
        return tuple(pool.map(fetch, debs))


def _url(env: Mapping[str, str], deb: LockedDeb) -> str:
    return f"{mirror_url(env)}/{quote(deb.path)}"


def _explained(error: FetchError, env: Mapping[str, str], deb: LockedDeb) -> FetchError:
    cause = error.__cause__
    if not isinstance(cause, requests.HTTPError) or cause.response.status_code not in NOT_THERE:
        return error
    return FetchError(
        f"the Debian mirror no longer has {deb.name} {deb.version}, which the lock pins",
        where=redact(_url(env, deb)),
        hint="./build.py lock --upgrade base, to pin what it has now; or\n"
        f"set {SETTING} to a snapshot of the archive from the lock's day",
    )
