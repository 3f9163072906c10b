"""Index pages: a server in memory, whose reply is read as a project page and as the place of a locked file."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

import requests
from requests.adapters import HTTPAdapter
from urllib3 import HTTPResponse

from gb10.core.files import Artifact
from gb10.image.lock.relock import sha256_of
from gb10.sources.index.client import Index, locate, open_index_session
from gb10.sources.index.page import JSON_TYPE

TYPES: Final = {"json": JSON_TYPE, "html": "text/html; charset=utf-8"}
ENTRY: Final = {
    "filename": "a-1.tar.gz",
    "url": "../../f/a-1.tar.gz",
    "hashes": {"sha256": "ab" * 32},
    "size": 7,
    "yanked": False,
    "requires-python": ">=3.9",
}
JSON: Final = (
    json.dumps({"meta": {"api-version": "1.1"}, "name": "a", "files": [ENTRY, {**ENTRY, "yanked": "bad"}]}).encode(),
)
HTML: Final = (
    b'<!DOCTYPE html><html><head><base href="/simple/a/"></head><body><a href="../../f/a-1%2Bx-py3-none-any.whl'
    b'#sha256=ab" data-yanked="bad" data-requires-python="&gt;=3.9">a-1+x</a><br/>\n<a href="../">up</a>'
    b'<a href="https://other.invalid/a-1.tar.gz?q=1#md5=cd">a</a></body></html>',
)


class Replies(HTTPAdapter):
    """Every request gets the one reply."""

    def __init__(self, body: bytes, kind: str) -> None:
        super().__init__()
        self.body, self.kind = body, kind

    def send(self, request: requests.PreparedRequest, *_: object, **__: object) -> requests.Response:
        """The reply."""
        headers = {"Content-Type": self.kind}
        reply = HTTPResponse(body=io.BytesIO(self.body), headers=headers, status=200, preload_content=False)
        return self.build_response(request, reply)


def read_as(kind: str) -> Callable[[bytes, Path], None]:
    """What reads a page of this kind."""

    def read(data: bytes, _: Path) -> None:
        session = open_index_session({})
        session.mount("https://", Replies(data, TYPES[kind]))
        index = Index(session, "https://index.invalid/simple")
        for link in index.links("a"):
            assert link.url.startswith(("https://", "http://"))
        locate([index], Artifact("a-1.tar.gz", "ab" * 32, 7))
        for link in index.links("a"):
            sha256_of(link)

    return read
