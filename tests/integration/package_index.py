"""A package index that takes uploads by trusted publishing, and the host whose tokens say which job asks for it.

Both are one server with TLS, since uv asks for a token over nothing else.
"""

import json
import ssl
import subprocess
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from email.policy import HTTP
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs, urlsplit

from tests.quiet_handler import QuietHandler

JOB = "token-of-the-job"
IDENTITY = "e30.eyJzdWIiOiJyZXBvOmEvYjplbnZpcm9ubWVudDpweXBpIn0.c2lnbmF0dXJl"
MINTED = "pypi-for-a-quarter-of-an-hour"


@dataclass(slots=True)
class PackageIndex:
    """Where it listens, what it got, and what it was asked."""

    folder: Path
    port: int = 0
    asked: list[str] = field(default_factory=list)

    @property
    def env(self) -> dict[str, str]:
        """What a runner gives a job with the right ``id-token: write``, and where this index is."""
        url = f"https://127.0.0.1:{self.port}"
        return {
            **{"GITHUB_ACTIONS": "true", "ACTIONS_ID_TOKEN_REQUEST_URL": f"{url}/identity?job=1"},
            **{"ACTIONS_ID_TOKEN_REQUEST_TOKEN": JOB},
            **{"UV_PUBLISH_URL": f"{url}/legacy/", "SSL_CERT_FILE": str(self.folder / "certificate.pem")},
        }

    @property
    def project(self) -> Path:
        """The files that were uploaded."""
        return self.folder / "simple/gb10"


@contextmanager
def package_index(folder: Path) -> Iterator[PackageIndex]:
    """The index, with its files in ``folder``."""
    found = PackageIndex(folder)
    found.project.mkdir(parents=True)
    request = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "certificate.pem")]
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    leaf = ["-addext", "basicConstraints=critical,CA:FALSE"]  # uv takes no authority's certificate for a server's
    subprocess.run([*request, *files, *names, *leaf], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"index": found}))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    found.port = int(server.server_address[1])
    thread = Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Handler(QuietHandler):
    """One connection."""

    index: PackageIndex

    def do_GET(self) -> None:
        """The audience of this index, and the identity of a job that asks for it."""
        url = urlsplit(self.path)
        self.index.asked.append(url.path)
        if url.path == "/_/oidc/audience":
            self._answer(200, {"audience": "an-index"})
        elif url.path == "/identity" and self.headers["Authorization"].split() in (["Bearer", JOB], ["bearer", JOB]):
            right = parse_qs(url.query).get("audience") == ["an-index"]
            self._answer(200 if right else 403, {"value": IDENTITY})
        else:
            self._answer(404, {})

    def do_POST(self) -> None:
        """A token for an identity; an upload with that token."""
        self.index.asked.append(self.path)
        body = self.rfile.read(int(self.headers["Content-Length"])) if "Content-Length" in self.headers else self._all()
        if self.path == "/_/oidc/mint-token":
            right = json.loads(body)["token"] == IDENTITY
            self._answer(200 if right else 422, {"success": right, "token": MINTED})
        elif self.headers.get("Authorization", "").removeprefix("Basic ") and self._who() == f"__token__:{MINTED}":
            head = f"Content-Type: {self.headers['Content-Type']}\r\n\r\n".encode()
            for part in message_from_bytes(head + body, policy=HTTP).iter_parts():
                name, content = part.get_filename(), part.get_payload(decode=True)
                if name and isinstance(content, bytes):
                    (self.index.project / Path(name).name).write_bytes(content)
            self._answer(200, {})
        else:
            self._answer(403, {})

    def _who(self) -> str:
        return b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode()

    def _all(self) -> bytes:
        """A body in chunks."""
        blocks = []
        while size := int(self.rfile.readline(), 16):
            blocks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(blocks)

    def _answer(self, status: int, document: dict[str, object]) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
