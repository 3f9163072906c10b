"""A registry with what Debian's has not: OCI's referrers API, and tokens that another address gives; in memory."""

import base64
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import SHUT_RDWR
from threading import Thread
from urllib.parse import urlsplit

from tests.quiet_handler import QuietHandler

INDEX = "application/vnd.oci.image.index.v1+json"


@dataclass
class Registry:
    """What it keeps and what it was asked. ``referrers``: whether it lists them itself."""

    user: str = "me"
    password: str = "secret"  # noqa: S105 - of the test
    referrers: bool = True
    host: str = ""
    blobs: dict[str, bytes] = field(default_factory=dict)
    manifests: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    listed: dict[str, bytes] = field(default_factory=dict)
    """What it lists of a manifest in place of the truth."""
    pause: float = 0.0
    """Seconds between two bytes of a manifest."""
    cuts: list[int] = field(default_factory=list)
    """After how many bytes of a blob the connection breaks, one for each time."""
    token_of: str = "t0k3n"  # noqa: S105 - of the test
    """The token that is taken now."""
    ranges: bool = True
    """Whether a part of a blob can be had."""


def handler(registry: Registry) -> type[BaseHTTPRequestHandler]:
    """The server's side of the protocol."""

    class Handler(QuietHandler):
        protocol_version = "HTTP/1.1"

        def reply(self, status: int, body: bytes = b"", **headers: str) -> None:
            """An answer, whole."""
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            """Any request."""
            registry.asked.append(f"{self.command} {self.path}")
            path = urlsplit(self.path).path
            if path == "/token":
                self.token()
            elif self.headers.get("Authorization") != f"Bearer {registry.token_of}":
                challenge = f'Bearer realm="http://{registry.host}/token",service="here"'
                self.reply(401, WWW_Authenticate=challenge)
            elif "/referrers/" in path:
                self.listing(path.rpartition("/")[2])
            elif "/manifests/" in path:
                self.manifest(path.rpartition("/")[2])
            else:
                self.blob(path.rpartition("/")[2])

        def token(self) -> None:
            """A token for the right password."""
            expected = base64.b64encode(f"{registry.user}:{registry.password}".encode()).decode()
            given = self.headers.get("Authorization", "").removeprefix("Basic ")
            answer = json.dumps({"token": registry.token_of}).encode()
            self.reply(200, answer) if given == expected else self.reply(401)

        def listing(self, digest: str) -> None:
            """The referrers of a manifest."""
            if not registry.referrers:
                self.reply(404)
                return
            if digest in registry.listed:
                self.reply(200, registry.listed[digest], Content_Type=INDEX)
                return
            rows = []
            for name, (kind, content) in registry.manifests.items():
                document = json.loads(content)
                if document.get("subject", {}).get("digest") == digest and name.startswith("sha256:"):
                    row = {"mediaType": kind, "digest": name, "size": len(content)}
                    rows.append(
                        {**row, "artifactType": document["artifactType"], "annotations": document["annotations"]}
                    )
            self.reply(200, json.dumps({"manifests": rows}).encode(), Content_Type=INDEX)

        def manifest(self, name: str) -> None:
            """A manifest."""
            kind, stored = registry.manifests.get(name, ("", b""))
            if registry.pause:
                self.drip(stored)
                return
            self.reply(200, stored, Content_Type=kind) if kind else self.reply(404)

        def drip(self, body: bytes) -> None:
            """A body, byte by byte."""
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with suppress(ConnectionError):  # the client had enough
                for place in range(len(body)):
                    self.wfile.write(body[place : place + 1])
                    time.sleep(registry.pause)

        def blob(self, digest: str) -> None:
            """A blob."""
            found = registry.blobs.get(digest)
            if found is None:
                self.reply(404)
                return
            begin = int(self.headers.get("Range", "bytes=0-")[6:-1]) if registry.ranges else 0
            self.send_response(206 if begin else 200)
            self.send_header("Content-Length", str(len(found) - begin))
            self.end_headers()
            cut = registry.cuts.pop(0) if registry.cuts else len(found)
            self.wfile.write(found[begin : begin + cut])
            if cut < len(found) - begin:
                self.connection.shutdown(SHUT_RDWR)
                self.close_connection = True

    return Handler


@contextmanager
def oci_server(registry: Registry) -> Iterator[Registry]:
    """The registry, listening."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler(registry))
    server.daemon_threads = True
    registry.host = f"127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
