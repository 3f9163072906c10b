"""The metadata of a wheel behind a real server: with ranges, without them, and what a hostile one sends."""

import io
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer

import pytest

from gb10.errors import FetchError
from gb10.sources.index.client import open_index_session
from gb10.sources.index.metadata import LARGEST, wheel_metadata
from gb10.sources.index.page import Link
from tests.quiet_handler import QuietHandler

pytestmark = pytest.mark.integration
METADATA = b"Metadata-Version: 2.1\nName: big\nVersion: 1\nRequires-Dist: torch==2.13.0\n"


def wheel(*, metadata: bytes = METADATA, files: int = 3000, names: tuple[str, ...] = ("big-1.dist-info",)) -> bytes:
    """A wheel of several MB, whose list of files is longer than one range."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(files):
            archive.writestr(f"big/a_rather_long_name_of_a_module_{number:05}.py", b"")
        archive.writestr(zipfile.ZipInfo("big/_C.abi3.so"), bytes(range(256)) * 20_000)  # stored
        for name in names:
            archive.writestr(f"{name}/METADATA", metadata)
    return out.getvalue()


class Served:
    """What a server sent, and how it behaves."""

    def __init__(self, content: bytes, behaviour: str = "ranges") -> None:
        self.content, self.behaviour, self.sent = content, behaviour, 0


@contextmanager
def server(served: Served) -> Iterator[str]:
    class Handler(QuietHandler):
        def do_GET(self) -> None:
            start, _, end = self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")
            body = served.content[int(start) : int(end) + 1 if end else None]
            if served.behaviour == "none" or (served.behaviour == "once" and served.sent):
                self.send_response(200)
                body = served.content
            else:
                self.send_response(206)
            body = body[:-1] if served.behaviour == "short" else body
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            served.sent += len(body)
            self.wfile.write(body)

    made = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{made.server_port}/big-1-py3-none-any.whl"
    finally:
        made.shutdown()
        made.server_close()
        thread.join()


def read(served: Served, size: int | None = None) -> bytes | None:
    with server(served) as url:
        link = Link(filename="big-1-py3-none-any.whl", url=url)
        return wheel_metadata(open_index_session({}), link, len(served.content) if size is None else size)


def test_a_few_ranges_are_enough() -> None:
    served = Served(wheel())
    assert read(served) == METADATA
    assert len(served.content) > 5_000_000
    assert served.sent < 1_000_000


def test_a_server_without_ranges_is_not_read_whole() -> None:
    assert read(Served(wheel(), "none")) is None


@pytest.mark.parametrize(
    ("served", "said"),
    [
        (Served(wheel(), "short"), "its server sent"),
        (Served(wheel(), "once"), "its server answered 200 for a part of it"),
        (Served(b"no wheel at all"), "not a zip file"),
        (Served(b""), "not a zip file"),
        (Served(wheel(names=())), "0 files METADATA"),
        (Served(wheel(names=("a-1.dist-info", "b-1.dist-info"))), "2 files METADATA"),
        (Served(wheel(metadata=b" " * (LARGEST + 1))), "1 files METADATA"),
    ],
    ids=["short", "once", "none", "empty", "no metadata", "two", "large"],
)
def test_what_cannot_be_read_is_one_error(served: Served, said: str) -> None:
    with pytest.raises(FetchError, match=r"big-1-py3-none-any\.whl has no usable metadata") as caught:
        read(served)
    assert said in (caught.value.where or "")


def test_a_wrong_size_is_an_error() -> None:
    with pytest.raises(FetchError):
        read(Served(wheel()), size=40)
