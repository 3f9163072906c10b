"""One repository of a registry, by the protocol of OCI: manifests and small blobs are read, layers streamed.

A machine without an engine and without skopeo can look at an image this way, before it is pulled.
"""

import hashlib
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import urlsplit

import requests
from requests.utils import parse_dict_header

from gb10.containers.reference import DIGEST, split_reference
from gb10.containers.registry.access import Login
from gb10.containers.registry.transfer import registry_error
from gb10.core.concurrency import LateError, within
from gb10.core.http_session import open_session
from gb10.errors import PublishError

OCI: Final = "application/vnd.oci.image"
MANIFEST, INDEX, CONFIG = f"{OCI}.manifest.v1+json", f"{OCI}.index.v1+json", f"{OCI}.config.v1+json"
DOCKER: Final = "application/vnd.docker.distribution.manifest"
ACCEPTED: Final = f"{MANIFEST}, {INDEX}, {DOCKER}.v2+json, {DOCKER}.list.v2+json"
LARGEST: Final = 8 << 20
"""Bytes of a manifest or of a blob that is read."""
SMALL: Final = 64 << 10
"""Bytes of an answer with a token."""
TIMEOUT: Final = 60.0
ANSWER: Final = 120.0
"""Seconds for one manifest or blob, with its login and its tries."""
WHOLE: Final = 300.0
"""Seconds for all that is read of a repository."""
MOST: Final = 64 << 20
"""Bytes of all that is read of a repository."""
BLOCK: Final = 1 << 18
"""Bytes of a layer at a time."""
SLOWEST: Final = 1 << 18
"""Bytes per second of a layer, below which it is given up."""
TRIES: Final = 4
"""How often a layer that breaks off is taken up again without a byte."""
HUB: Final = ("docker.io", "registry-1.docker.io")
CERTIFICATES: Final = Path("/etc/docker/certs.d")
TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/=-]+")
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """A manifest's bytes, and their digest."""

    content: bytes
    digest: str


@dataclass(kw_only=True, slots=True)
class Repository:
    """A repository that was opened; ``name`` is its path in the registry."""

    session: requests.Session
    base: str
    name: str
    login: Login
    token: str = field(default="", repr=False)
    until: float = field(default_factory=lambda: time.monotonic() + WHOLE)
    taken: int = 0
    """Bytes that were read."""

    def manifest(self, reference: str) -> Manifest | None:
        """The manifest of a tag or a digest; None when there is none. Raises PublishError."""
        content = self._content(f"manifests/{reference}", LARGEST, ACCEPTED)
        if content is None:
            return None
        found = Manifest(content=content, digest=_digest(content))
        if DIGEST.fullmatch(reference) and found.digest != reference:
            raise PublishError(f"{self.base} sent another manifest than the one that was asked for", where=reference)
        return found

    def blob(self, digest: str, limit: int = LARGEST) -> bytes:
        """A blob, whose bytes are checked. Raises PublishError, also when it is larger than the limit."""
        if not DIGEST.fullmatch(digest):
            raise self._error(f"{digest} is no digest")
        content = self._content(f"blobs/{digest}", limit)
        if content is None:
            raise self._error(f"it has no blob {digest}")
        if _digest(content) != digest:
            raise self._error(f"the bytes of the blob {digest} are not its own")
        return content

    def stream(self, digest: str, size: int) -> Iterator[bytes]:
        """The bytes of a large blob as they arrive; who reads them checks their digest. A connection that breaks is
        taken up again where it broke.

        Raises PublishError, also for more or fewer bytes than ``size``.
        """
        at = tries = 0
        until = time.monotonic() + ANSWER + size / SLOWEST
        while at < size:
            before = at
            try:
                more = {"Accept-Encoding": "identity", **({"Range": f"bytes={at}-"} if at else {})}
                with self._asked(f"blobs/{digest}", **more) as reply:
                    if reply.status_code != (requests.codes.partial if at else requests.codes.ok):
                        raise self._error(f"it has no blob {digest}" if not at else "it does not resume a blob")
                    for block in reply.iter_content(BLOCK):
                        at += len(block)
                        if at > size:
                            raise self._error(f"it sends more than the {size:,} bytes of {digest}")
                        if time.monotonic() > until:
                            raise self._error(f"it is too slow: less than {SLOWEST >> 10} KiB/s of {digest}")
                        yield block
            except PublishError as error:
                tries = 0 if at > before else tries + 1
                if not isinstance(error.__cause__, requests.RequestException) or tries == TRIES:
                    raise
            else:
                if at == before:
                    raise self._error(f"it sends fewer than the {size:,} bytes of {digest}")

    def referrers(self, digest: str, limit: int = LARGEST) -> bytes | None:
        """The index of what refers to a manifest, by the registry's own API; None when it has none.

        With a smaller limit than LARGEST it is cut behind the limit's next byte. Raises PublishError.
        """

        def read() -> bytes | None:
            with self._asked(f"referrers/{digest}", INDEX) as reply:
                kind = reply.headers.get("Content-Type", "").partition(";")[0]
                listed = reply.status_code == requests.codes.ok and kind == INDEX
                return self._read(reply, limit, cut=limit < LARGEST) if listed else None

        return self._in_time(read)

    def _content(self, path: str, limit: int, accept: str = "*/*") -> bytes | None:
        """The body of an answer; None when the registry has no such thing."""

        def read() -> bytes | None:
            with self._asked(path, accept) as reply:
                return None if reply.status_code == requests.codes.not_found else self._read(reply, limit)

        return self._in_time(read)

    def _in_time(self, read: Callable[[], T]) -> T:
        """An answer, unless it or all of them together take too long: each byte may come just in time."""
        seconds = min(ANSWER, self.until - time.monotonic())
        try:
            return within(seconds, read)
        except LateError as error:
            limit = f"one answer took more than {ANSWER:.0f} s"
            reason = limit if seconds == ANSWER else f"all that was read of it took more than {WHOLE:.0f} s"
            raise self._error(f"it is too slow: {reason}") from error

    @contextmanager
    def _asked(self, path: str, accept: str = "*/*", **more: str) -> Iterator[requests.Response]:
        """A reply, for 404 too; a registry that wants a login gets it, also when a token is too old.

        ``more``: further headers.
        """
        try:
            reply = self._get(path, accept, more)
            if reply.status_code == requests.codes.unauthorized:
                reply.close()
                self.token = ""
                self._log_in(reply.headers.get("WWW-Authenticate", ""))
                reply = self._get(path, accept, more)
            with reply:
                if not reply.ok and reply.status_code != requests.codes.not_found:
                    text = next(reply.iter_content(300), b"").decode(errors="replace").strip()
                    raise self._error(f"{reply.status_code} {reply.reason} {text}".strip())
                yield reply
        except requests.RequestException as error:
            raise self._error(str(error)) from error

    def _get(self, path: str, accept: str, more: Mapping[str, str]) -> requests.Response:
        headers = {"Accept": accept, **more, **({"Authorization": self.token} if self.token else {})}
        return self.session.get(f"{self.base}/v2/{self.name}/{path}", headers=headers, timeout=TIMEOUT, stream=True)

    def _log_in(self, challenge: str) -> None:
        """Answer a challenge: with the credentials themselves, or with a token that another server gives for them."""
        kind, _, rest = challenge.partition(" ")
        if kind.lower() == "basic" and self.login.user:
            self.token = f"Basic {self.login.basic}"
            return
        fields: dict[str, str] = parse_dict_header(rest)  # type: ignore[no-untyped-call]
        realm = fields.get("realm", "")
        if kind.lower() != "bearer" or not realm.startswith(("https://", f"{self.base}/")):
            raise self._error("it asks for a login, and there is none for it")
        scope = f"repository:{self.name}:pull"
        wanted = {"service": fields.get("service", ""), "scope": scope}
        with self._token(realm, wanted) as reply:
            token = token_in(self._read(reply, SMALL)) if reply.ok else ""
        if not TOKEN.fullmatch(token):
            raise self._error(f"{urlsplit(realm).hostname} gave no token: {reply.status_code} {reply.reason}")
        self.token = f"Bearer {token}"

    def _token(self, realm: str, wanted: Mapping[str, str]) -> requests.Response:
        if self.login.identity:
            form = {**wanted, "grant_type": "refresh_token", "refresh_token": self.login.identity, "client_id": "gb10"}
            return self.session.post(realm, data=form, timeout=TIMEOUT, stream=True)
        auth = (self.login.user, self.login.password) if self.login.user else None
        return self.session.get(realm, params=dict(wanted), auth=auth, timeout=TIMEOUT, stream=True)

    def _read(self, reply: requests.Response, limit: int, *, cut: bool = False) -> bytes:
        content = b""
        for block in reply.iter_content(1 << 16):
            content += block
            self.taken += len(block)
            if len(content) > limit and cut:
                return bytes(content[: limit + 1])
            if len(content) > limit or self.taken > MOST:
                one = f"{limit >> 20} MiB for {urlsplit(reply.url).path}"
                raise self._error(f"it sends more than {one if len(content) > limit else f'{MOST >> 20} MiB'}")
        return content

    def _error(self, reason: str) -> PublishError:
        return registry_error(f"{urlsplit(self.base).netloc}/{self.name}", reason)


def open_repository(env: Mapping[str, str], reference: str, login: Login) -> Repository:
    """The repository of a reference, with or without a tag; nothing is asked yet."""
    session = open_session(env)
    host, path = login.host, path_of(reference)
    own = CERTIFICATES / host / "ca.crt"
    if own.exists():
        session.verify = str(own)
    base = f"{'https' if login.tls else 'http'}://{HUB[1] if host == HUB[0] else host}"
    return Repository(session=session, base=base, name=path, login=login)


def token_in(text: bytes) -> str:
    """The token of an answer, nothing of one without. Pure."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    fields = document if isinstance(document, dict) else {}
    return str(fields.get("token") or fields.get("access_token") or "")


def path_of(reference: str) -> str:
    """A repository's name in its registry: without the host, ``library/NAME`` of a bare name of Docker Hub. Pure."""
    repository = split_reference(reference.partition("@")[0])[0]
    first, slash, rest = repository.partition("/")
    is_host = slash and (first == "localhost" or any(sign in first for sign in ".:") or first != first.lower())
    path, hub = (rest, first == HUB[0]) if is_host else (repository, True)
    return f"library/{path}" if hub and "/" not in path else path


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
