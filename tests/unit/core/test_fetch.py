"""Files by content: what is damaged is removed once, and never from under another run."""

import hashlib
import io
import threading
from pathlib import Path

import pytest
import requests
from requests.adapters import BaseAdapter, HTTPAdapter
from urllib3 import HTTPResponse
from urllib3.exceptions import MaxRetryError

from gb10.core.concurrency import LateError, within
from gb10.core.fetch import CA_VARIABLES, ca_bundle, intact, redact, stored
from gb10.core.files import Artifact
from gb10.core.http_session import MOST_WAIT, download, network_error, open_session
from gb10.core.store import Store
from gb10.errors import FetchError, UsageError

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


@pytest.mark.parametrize(
    ("have", "ranged", "content"),
    [
        (None, None, GOOD),
        (0, None, GOOD),
        (1, "bytes=1-", GOOD),
        (len(GOOD) - 1, "bytes=14-", GOOD),
        (len(GOOD) + 1, None, GOOD),  # more than the file has: from the start
        (len(GOOD), "nothing is asked for", GOOD),
    ],
)
def test_only_what_is_missing_is_asked_for(store: Store, have: int | None, ranged: str | None, content: bytes) -> None:
    part = store.root / f"tmp/{ARTIFACT.sha256}.part"
    if have is not None:
        part.parent.mkdir()
        part.write_bytes((GOOD + b"more")[:have])
    server, counts = Server(content), list[int]()
    path = download(session(server), store, ARTIFACT, lambda: "https://server.invalid/a.whl", counts.append)
    assert path.read_bytes() == GOOD
    if have == len(GOOD):
        assert (server.asked, counts) == ([], [])
    else:
        assert server.asked[0].get("Range") == ranged
        assert sum(counts) == len(GOOD) - (have or 0 if ranged else 0)


def test_the_first_ca_bundle_that_is_named_is_taken(tmp_path: Path) -> None:
    bundle, other = tmp_path / "ca.pem", tmp_path / "other.pem"
    bundle.touch()
    other.touch()
    for name in CA_VARIABLES:
        assert ca_bundle({name: str(bundle)}) == bundle
    assert ca_bundle({"SSL_CERT_FILE": str(bundle), "CURL_CA_BUNDLE": str(other)}) == bundle
    assert ca_bundle({"SSL_CERT_FILE": "", "CURL_CA_BUNDLE": str(other)}) == other
    assert open_session({"GB10_CA_BUNDLE": str(bundle)}).verify == str(bundle)
    with pytest.raises(UsageError, match="PIP_CERT names a CA bundle that does not exist"):
        ca_bundle({"PIP_CERT": str(tmp_path / "none.pem")})


def test_without_a_named_bundle_it_is_the_systems_or_the_librarys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gb10.core.fetch.SYSTEM_CA", tmp_path / "ca.pem")
    assert ca_bundle({}) is None
    assert open_session({}).verify is True
    (tmp_path / "ca.pem").touch()
    assert ca_bundle({}) == tmp_path / "ca.pem"


@pytest.mark.parametrize(("asked", "line"), [("1", ""), ("2", "trying again in 2 s"), ("999", "trying again in 10 s")])
def test_a_long_wait_is_told_and_a_short_one_is_not(
    asked: str, line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    adapter = open_session({}).get_adapter("https://server.invalid")
    assert isinstance(adapter, HTTPAdapter)
    reply = HTTPResponse(status=503, headers={"Retry-After": asked})
    adapter.max_retries.sleep(reply)
    assert slept == [min(float(asked), MOST_WAIT)]
    told = capsys.readouterr().err
    assert (line in told) if line else not told
    if line:
        assert told.startswith(f"the server answers 503 (Retry-After: {asked}):")


def test_a_server_that_asks_for_no_wait_gets_the_librarys_own(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    adapter = open_session({}).get_adapter("https://server.invalid")
    assert isinstance(adapter, HTTPAdapter)
    reply, retry = HTTPResponse(status=503), adapter.max_retries
    for _ in range(4):
        retry = retry.increment("GET", "/", response=reply)
        retry.sleep(reply)
    assert slept == [1.0, 2.0, 4.0]  # urllib3 does not wait before the first
    with pytest.raises(MaxRetryError):
        retry.increment("GET", "/", response=reply)


@pytest.mark.parametrize(
    ("status", "again"), [(200, 0), (404, 0), (403, 0), (429, 1), (500, 1), (502, 1), (503, 1), (504, 1)]
)
def test_only_what_may_pass_by_itself_is_tried_again(status: int, again: bool) -> None:
    adapter = open_session({}).get_adapter("http://server.invalid")
    assert isinstance(adapter, HTTPAdapter)
    assert adapter.max_retries.is_retry("GET", status) == bool(again)


def answered(status: int, reason: str) -> requests.Response:
    made = requests.Response()
    made.status_code, made.reason = status, reason
    return made


REQUEST = requests.Request("GET", "https://me:secret@server.invalid/a?b=c").prepare()


@pytest.mark.parametrize(
    ("error", "text", "hint"),
    [
        (requests.exceptions.SSLError(), "m: the server's certificate is not trusted", "SSL_CERT_FILE"),
        (requests.exceptions.ProxyError(), "m: the proxy does not answer", "HTTPS_PROXY"),
        (requests.exceptions.ConnectTimeout(), "m: the server does not answer in time", "it resumes"),
        (requests.exceptions.ConnectionError(), "m: the server cannot be reached", "check the network"),
        (requests.HTTPError(response=answered(404, "Gone")), "m: the server answered 404 Gone", "it resumes"),
        (requests.exceptions.ContentDecodingError("odd bytes"), "m: odd bytes", "it resumes"),
    ],
)
def test_each_failure_of_the_network_has_its_words(error: requests.RequestException, text: str, hint: str) -> None:
    assert network_error(error, "m").where is None
    error.request = REQUEST
    found = network_error(error, "m")
    assert str(found).startswith(f"error: {text}\n")
    assert found.where == "https://server.invalid/a?b=c"
    assert hint in (found.hint or "")


def test_an_url_is_shown_without_its_login() -> None:
    assert redact("https://me:a@b@server.invalid:80/x@y?z#t") == "https://server.invalid:80/x@y?z#t"
    assert redact("https://server.invalid/x") == "https://server.invalid/x"
