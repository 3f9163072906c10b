"""Files by content: what is damaged is removed once, and never from under another run."""

import hashlib
import io
import threading
from pathlib import Path

import pytest
import requests
from requests.adapters import BaseAdapter, HTTPAdapter
from urllib3 import HTTPResponse

from gb10.core.concurrency import LateError, within
from gb10.core.fetch import MOST_WAIT, download, intact, open_session, stored
from gb10.core.files import Artifact
from gb10.core.store import Store
from gb10.errors import FetchError

GOOD = b"what was locked"
ARTIFACT = Artifact("a.whl", hashlib.sha256(GOOD).hexdigest(), len(GOOD))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def put(store: Store, content: bytes) -> Path:
    path = stored(store, ARTIFACT)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def never(path: Path) -> None:
    pytest.fail(f"{path} is not damaged")


def test_an_absent_and_a_good_file_are_not_damaged(store: Store) -> None:
    assert not intact(store, ARTIFACT, never)
    put(store, GOOD)
    assert intact(store, ARTIFACT, never)


@pytest.mark.parametrize("content", [b"what was l0cked", b"short"])
def test_a_damaged_file_is_told_and_removed(store: Store, content: bytes) -> None:
    told: list[Path] = []
    path = put(store, content)
    assert not intact(store, ARTIFACT, told.append)
    assert told == [path]
    assert not path.exists()


def test_a_file_that_another_run_fetched_anew_stays(store: Store) -> None:
    put(store, b"damaged")
    answers: list[bool] = []
    with store.locked(f"download-{ARTIFACT.sha256}"):
        check = threading.Thread(target=lambda: answers.append(intact(store, ARTIFACT, never)))
        check.start()
        check.join(0.2)
        assert check.is_alive()
        path = put(store, GOOD)
    check.join()
    assert answers == [True]
    assert path.read_bytes() == GOOD


class Server(BaseAdapter):
    """A server that honours ranges, without a socket."""

    def __init__(self, content: bytes, body: io.RawIOBase | None = None) -> None:
        super().__init__()
        self.content = content
        self.body = body
        self.asked: list[dict[str, str]] = []

    def send(self, request: requests.PreparedRequest, *_: object, **__: object) -> requests.Response:
        self.asked.append({name: str(value) for name, value in request.headers.items()})
        start = int(request.headers.get("Range", "bytes=0-")[6:-1])
        reply = requests.Response()
        reply.status_code = 206 if start else 200
        reply.request = request
        reply.raw = self.body or io.BytesIO(self.content[start:])
        return reply

    def close(self) -> None:
        """Nothing to close."""


def session(server: Server) -> requests.Session:
    made = requests.Session()
    made.trust_env = False
    made.mount("https://", server)
    return made


@pytest.mark.parametrize("part", [b"", GOOD[:4]])
def test_bytes_are_asked_for_as_they_are(store: Store, part: bytes) -> None:
    (store.root / "tmp").mkdir()
    (store.root / f"tmp/{ARTIFACT.sha256}.part").write_bytes(part)
    server = Server(GOOD)
    path = download(session(server), store, ARTIFACT, lambda: "https://server.invalid/a.whl")
    assert path.read_bytes() == GOOD
    assert server.asked[0]["Accept-Encoding"] == "identity"
    assert server.asked[0].get("Range") == ("bytes=4-" if part else None)


def test_a_file_that_is_not_the_locked_one_is_refused(store: Store) -> None:
    with pytest.raises(FetchError, match="not the file that was locked"):
        download(session(Server(b"something else!")), store, ARTIFACT, lambda: "https://server.invalid/a.whl")
    assert not stored(store, ARTIFACT).exists()
    assert not list((store.root / "tmp").iterdir())


@pytest.mark.parametrize("asked", ["3600", "Fri, 01 Jan 2100 00:00:00 GMT", "86400000000"])
def test_a_server_may_not_ask_for_a_long_wait(asked: str) -> None:
    adapter = open_session({}).get_adapter("https://server.invalid")
    assert isinstance(adapter, HTTPAdapter)
    retry = adapter.max_retries
    reply = HTTPResponse(status=503, headers={"Retry-After": asked})
    for _ in range(3):
        retry = retry.increment("GET", "/", response=reply)
        assert retry.get_retry_after(reply) == MOST_WAIT
    assert retry.get_retry_after(HTTPResponse(status=503, headers={"Retry-After": "1"})) == 1
    assert retry.get_retry_after(HTTPResponse(status=503)) is None


def test_work_that_is_late_is_left_and_other_ends_are_its_own() -> None:
    assert within(5, lambda: 7) == 7
    with pytest.raises(LateError):
        within(0.02, threading.Event().wait)
    with pytest.raises(TimeoutError, match="its own"):
        within(5, lambda: (_ for _ in ()).throw(TimeoutError("its own")))


class Endless(io.RawIOBase):
    """A body without an end; counts what is read of it."""

    given = 0

    def read(self, size: int = -1) -> bytes:
        self.given += size
        assert self.given < 64 << 20
        return b"x" * size


def test_a_download_stops_past_the_locked_size(store: Store) -> None:
    body = Endless()
    with pytest.raises(FetchError, match="longer than the 15 bytes that were locked") as caught:
        download(session(Server(GOOD, body)), store, ARTIFACT, lambda: "https://me:secret@server.invalid/a.whl")
    assert "secret" not in str(caught.value)
    assert body.given < 8 << 20
    assert not list((store.root / "tmp").iterdir())
