"""A git host that demands a login: git's own http-backend behind basic authentication, over real HTTP."""

import base64
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email import message_from_bytes
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.quiet_handler import QuietHandler


@dataclass(slots=True)
class GitHost:
    """``lines``: the command lines of this machine that were seen while requests were open."""

    address: str
    lines: set[str] = field(default_factory=set)
    requests: list[str] = field(default_factory=list)

    def look(self) -> None:
        """Note what any user can read of every process."""
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                self.lines.add(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))


@contextmanager
def git_host(root: Path, login: str) -> Iterator[GitHost]:
    """Serves the repositories below ``root``, by the git in it, to whoever sends ``login`` (USER:PASSWORD)."""
    wanted = f"Basic {base64.b64encode(login.encode()).decode()}"

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            host.look()
            host.requests.append(f"{self.command} {self.path}")
            if self.headers.get("Authorization") != wanted:
                self.send_response(HTTPStatus.UNAUTHORIZED)
                self.send_header("WWW-Authenticate", 'Basic realm="git"')
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self._answer(_backend(root, self, body))

        do_POST = do_GET

        def _answer(self, reply: bytes) -> None:
            head, _, body = reply.partition(b"\r\n\r\n")
            fields = message_from_bytes(head)
            self.send_response(int(fields.get("Status", "200").split()[0]))
            self.send_header("Content-Type", fields["Content-Type"])
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with _serving(Handler) as address:
        host = GitHost(address)
        yield host


@contextmanager
def redirects(to: str) -> Iterator[str]:
    """The address of a host that sends whoever comes to another one."""

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            self.send_response(HTTPStatus.MOVED_PERMANENTLY)
            self.send_header("Location", f"{to}{self.path}")
            self.send_header("Content-Length", "0")
            self.end_headers()

    with _serving(Handler) as address:
        yield address


@contextmanager
def _serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()


def _backend(root: Path, request: BaseHTTPRequestHandler, body: bytes) -> bytes:
    """The answer of git http-backend, as CGI."""
    path, _, query = request.path.partition("?")
    env = {
        "PATH": "/usr/sbin:/usr/bin",
        "GIT_PROJECT_ROOT": "/",
        "GIT_HTTP_EXPORT_ALL": "1",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "safe.directory",
        "GIT_CONFIG_VALUE_0": "*",
        "GIT_PROTOCOL": request.headers.get("Git-Protocol", ""),
        "HTTP_CONTENT_ENCODING": request.headers.get("Content-Encoding", ""),
        "REQUEST_METHOD": request.command,
        "PATH_INFO": path,
        "QUERY_STRING": query,
        "CONTENT_TYPE": request.headers.get("Content-Type", ""),
        "CONTENT_LENGTH": str(len(body)),
        "REMOTE_ADDR": "127.0.0.1",
    }
    argv = ["chroot", str(root), "git", "http-backend"]
    return subprocess.run(argv, env=env, input=body, capture_output=True, check=True).stdout
