"""Downloads by HTTP: the user's proxies and certificates, patient tries, one clear text for each kind of failure."""

import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import requests
from requests.adapters import HTTPAdapter
from urllib3.response import BaseHTTPResponse
from urllib3.util.retry import Retry

from gb10.core.fetch import Place, accept, ca_bundle, redact, stored
from gb10.core.files import Artifact
from gb10.core.store import Store
from gb10.errors import FetchError

CHUNK = 1 << 20
MOST_WAIT: Final = 10.0
"""Seconds before the next try, whatever a server asks for: four tries then wait 40 s."""
LONG_WAIT: Final = 2.0
"""Seconds of a wait that is told."""
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


def get(session: requests.Session, place: Place, more: Mapping[str, str] | None = None) -> requests.Response:
    """The reply of a place, whose body is not read yet. Compressed on the way, no range and no size were the file's."""
    headers = {"Accept-Encoding": "identity", **place.headers, **(more or {})}
    return session.get(place.url, headers=headers, stream=True, timeout=60, verify=session.verify)


def transfer(
    session: requests.Session, place: Place, part: Path, artifact: Artifact, on_bytes: Callable[[int], None]
) -> None:
    """Add to ``part`` what it lacks of a file. Raises FetchError."""
    have = part.stat().st_size if part.exists() else 0
    if have == artifact.size:
        return
    try:
        with get(session, place, {"Range": f"bytes={have}-"} if 0 < have < artifact.size else None) as reply:
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
