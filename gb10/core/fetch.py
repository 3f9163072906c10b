"""Downloads by content: resumed when broken off, hashed while written, renamed only when the sha256 is right."""

import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit, urlunsplit

import requests
from requests.adapters import HTTPAdapter
from urllib3.response import BaseHTTPResponse
from urllib3.util.retry import Retry

from gb10.core.files import Artifact
from gb10.core.store import Store, file_sha256, note_use
from gb10.errors import FetchError, UsageError

CHUNK = 1 << 20
MOST_WAIT: Final = 10.0
"""Seconds before the next try, whatever a server asks for: four tries then wait 40 s."""
LONG_WAIT: Final = 2.0
"""Seconds of a wait that is told."""
SYSTEM_CA = Path("/etc/ssl/certs/ca-certificates.crt")
CA_VARIABLES = ("GB10_CA_BUNDLE", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT", "CURL_CA_BUNDLE")
# The first match wins: requests derives its proxy, certificate and connect-timeout errors from its connection error.
NETWORK_HINTS: Final = (
    (
        requests.exceptions.SSLError,
        "the server's certificate is not trusted",
        "set SSL_CERT_FILE to the CA bundle that your network uses",
    ),
    (requests.exceptions.ProxyError, "the proxy does not answer", "check HTTPS_PROXY, HTTP_PROXY and NO_PROXY"),
    (requests.exceptions.Timeout, "the server does not answer in time", "run the command again: it resumes"),
    (
        requests.exceptions.ConnectionError,
        "the server cannot be reached",
        "check the network; behind a proxy set HTTPS_PROXY; run again: it resumes",
    ),
)


@dataclass(frozen=True, slots=True)
class Place:
    """A URL, and the headers that its server wants."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)


def ca_bundle(env: Mapping[str, str]) -> Path | None:
    """The CA bundle the user's own settings name, else the system's, else None (the library's). Raises UsageError."""
    for name in CA_VARIABLES:
        if env.get(name):
            if not Path(env[name]).exists():
                raise UsageError(f"{name} names a CA bundle that does not exist", where=env[name])
            return Path(env[name])
    return SYSTEM_CA if SYSTEM_CA.exists() else None


class PatientRetry(Retry):
    """Tries again after a bounded wait, and says so."""

    def get_retry_after(self, response: BaseHTTPResponse) -> float | None:
        """The seconds that the server asks for, of many the most; its date may be of another century."""
        wanted = super().get_retry_after(response)
        return None if wanted is None else min(wanted, MOST_WAIT)

    def sleep_for_retry(self, response: BaseHTTPResponse) -> bool:
        """Wait as long as the server asks for, or MOST_WAIT."""
        seconds = self.get_retry_after(response)
        if not seconds:
            return False
        asked = response.headers.get("Retry-After", "")[:40]
        if seconds >= LONG_WAIT:
            line = f"the server answers {response.status} (Retry-After: {asked}): trying again in {seconds:.0f} s"
            print(ascii(line)[1:-1], file=sys.stderr, flush=True)
        time.sleep(seconds)
        return True


def open_session(env: Mapping[str, str]) -> requests.Session:
    """An HTTP session with the user's proxies, netrc and CA, retrying what is worth retrying."""
    session = requests.Session()
    retry = PatientRetry(total=4, backoff_factor=0.5, status_forcelist=(429, 500, 502, 503, 504))
    for scheme in ("https://", "http://"):
        session.mount(scheme, HTTPAdapter(max_retries=retry, pool_maxsize=16))
    bundle = ca_bundle(env)
    if bundle:
        session.verify = str(bundle)
    return session


def stored(store: Store, artifact: Artifact) -> Path:
    """Where the store keeps an artifact, present or not."""
    return store.entry("downloads", artifact.sha256) / artifact.filename


def store_paths(store: Store, files: Iterable[Artifact]) -> list[Path]:
    """Where the store keeps these files."""
    return [stored(store, file) for file in files]


def download(
    session: requests.Session,
    store: Store,
    artifact: Artifact,
    url: Callable[[], str],
    on_bytes: Callable[[int], None] = lambda count: None,
) -> Path:
    """The artifact's file in the store; ``url`` is requested only when the file is absent. Raises FetchError."""
    final = stored(store, artifact)
    if final.exists():
        return final
    with store.locked(f"download-{artifact.sha256}"):
        if not final.exists():
            part = store.root / "tmp" / f"{artifact.sha256}.part"
            part.parent.mkdir(parents=True, exist_ok=True)
            transfer(session, Place(url()), part, artifact, on_bytes)
            accept(part, artifact, final)
    return final


def transfer(
    session: requests.Session, place: Place, part: Path, artifact: Artifact, on_bytes: Callable[[int], None]
) -> None:
    """Add to ``part`` what it lacks of a file. Raises FetchError."""
    have = part.stat().st_size if part.exists() else 0
    if have == artifact.size:
        return
    # Compressed on the way, neither the range nor the size would be the file's.
    ranged = {"Range": f"bytes={have}-"} if 0 < have < artifact.size else {}
    headers = {"Accept-Encoding": "identity", **place.headers, **ranged}
    try:
        with session.get(place.url, headers=headers, stream=True, timeout=60, verify=session.verify) as reply:
            reply.raise_for_status()
            with part.open("ab" if reply.status_code == 206 else "wb") as out:
                for block in reply.iter_content(CHUNK):
                    out.write(block)
                    on_bytes(len(block))
                    if out.tell() > artifact.size:
                        raise _too_long(part, artifact, place.url)
    except requests.RequestException as error:
        raise network_error(error, f"cannot download {artifact.filename}") from error


def _too_long(part: Path, artifact: Artifact, url: str) -> FetchError:
    """The error of a server that sends more than was locked; what it sent is removed."""
    part.unlink()
    return FetchError(
        f"{artifact.filename} is longer than the {artifact.size} bytes that were locked",
        where=redact(url),
        hint="the mirror or a proxy changed it; run again, or point to another index or mirror",
    )


def network_error(error: requests.RequestException, message: str) -> FetchError:
    """One clear text for each kind of network failure: certificate, proxy, time, name, status."""
    url = redact(str(error.request.url)) if error.request is not None and error.request.url else ""
    reply = error.response
    for kind, about, hint in NETWORK_HINTS:
        if isinstance(error, kind):
            return FetchError(f"{message}: {about}", where=url or None, hint=hint)
    status = f"the server answered {reply.status_code} {reply.reason}" if reply is not None else str(error)
    return FetchError(f"{message}: {status}", where=url or None, hint="run the command again: it resumes")


def redact(url: str) -> str:
    """The URL without the user name and password that it may hold."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def accept(part: Path, artifact: Artifact, final: Path) -> None:
    """Move a file to its place in the store; raises FetchError, and removes it, when it is not the locked one."""
    found = file_sha256(part)
    if found != artifact.sha256:
        part.unlink()
        raise FetchError(
            f"{artifact.filename} is not the file that was locked",
            where=f"expected sha256 {artifact.sha256}\n   found sha256 {found}",
            hint="the mirror or a proxy changed it; run again, or point to another index or mirror",
        )
    final.parent.mkdir(parents=True, exist_ok=True)
    part.replace(final)


def intact(store: Store, artifact: Artifact, damaged: Callable[[Path], None]) -> bool:
    """Re-hash the files in the store; a damaged file goes to ``damaged`` and is removed, to be fetched again."""
    path = stored(store, artifact)
    if not path.exists():
        return False
    if _is_whole(path, artifact):
        return True
    with store.locked(f"download-{artifact.sha256}"):
        # Another run may have fetched it anew while we hashed or waited.
        if _is_whole(path, artifact):
            return True
        if path.exists():
            damaged(path)
            path.unlink()
    return False


def _is_whole(path: Path, artifact: Artifact) -> bool:
    try:
        whole = path.stat().st_size == artifact.size and file_sha256(path) == artifact.sha256
        if whole:
            note_use(path)
        return whole
    except FileNotFoundError:
        return False
