"""Stands for a Docker that somebody else runs: a real HTTP server on a socket, whose answers a test may make odd."""

import json
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer
from threading import Thread
from typing import Any, Final
from urllib.parse import urlsplit

LABEL: Final = "io.github.gb10.service"
IMAGE: Final = "sha256:" + "1" * 64
VERSION: Final = {"Version": "29.0.0", "ApiVersion": "1.45", "Os": "linux"}
INFO: Final = {
    "OSType": "linux",
    "DockerRootDir": "/var/lib/docker",
    "DriverStatus": [["Backing Filesystem", "extfs"]],
    "Architecture": "aarch64",
    "MemTotal": 128 << 30,
    "SystemTime": "2026-11-26T00:00:00.123456789Z",
    "Runtimes": {"runc": {}},
}


def container(name: str, rank: int = 0, **labels: str) -> dict[str, Any]:
    """A container of a service, as Docker shows it; ``labels`` replace those of its service."""
    found = {"hosts": '["localhost"]', "rank": str(rank), "endpoint": "http://127.0.0.1:1", "model": "m"} | labels
    return {
        "Id": f"{abs(hash((name, rank))):064x}"[:64],
        "Name": f"/gb10-{name}-{rank}",
        "Image": IMAGE,
        "Created": "2026-11-26T00:00:00Z",
        "State": {"Status": "running", "ExitCode": 0, "OOMKilled": False, "StartedAt": "2026-11-26T00:00:00Z"},
        "Config": {
            "Image": "image:1",
            "Tty": False,
            "Labels": {LABEL: name, **{f"{LABEL}.{key}": value for key, value in found.items()}},
            "Cmd": ["vllm", "serve", "m"],
            "Entrypoint": None,
            "Env": ["A=b"],
        },
        "HostConfig": {"Devices": None, "DeviceRequests": None, "Ulimits": None, "Runtime": "runc"},
    }


@dataclass(slots=True)
class FakeDocker:
    """What it has, what it was asked, and the answers that are other ones than its own (by the end of the path)."""

    host: str
    containers: list[dict[str, Any]] = field(default_factory=list)
    log: bytes = b"loading\n"
    asked: list[str] = field(default_factory=list)
    odd: dict[str, bytes] = field(default_factory=dict)

    def one(self, identity: str) -> dict[str, Any] | None:
        """A container by its id or name."""
        return next((one for one in self.containers if identity in (one["Id"], one["Name"].lstrip("/"))), None)


def _answer(docker: FakeDocker, method: str, path: str) -> tuple[int, bytes, str]:  # noqa: PLR0911 - one for each page
    plain = re.sub(r"^/v[0-9.]+", "", path)
    odd = next((body for end, body in docker.odd.items() if plain.endswith(end)), None)
    if odd is not None:
        return 200, odd, "application/json"
    found = re.fullmatch(r"/containers/([^/]+)/(json|logs|stop|kill|wait)", plain)
    if plain == "/_ping":
        return 200, b"OK", "text/plain"
    fixed: Mapping[str, Callable[[], object]] = {
        "/version": lambda: VERSION,
        "/info": lambda: INFO,
        "/images/json": list,
        "/containers/json": lambda: [{"Id": one["Id"], "Created": 1} for one in docker.containers],
    }
    if plain in fixed:
        return 200, json.dumps(fixed[plain]()).encode(), "application/json"
    if found and found[1] != "json" and (one := docker.one(found[1])):
        if found[2] == "json":
            return 200, json.dumps(one).encode(), "application/json"
        if found[2] == "logs":
            lines = docker.log.splitlines(keepends=True)
            framed = b"".join(struct.pack(">BxxxL", 1, len(line)) + line for line in lines)
            return 200, framed, "application/octet-stream"
        return 204, b"", "text/plain"
    gone = re.fullmatch(r"/containers/([^/]+)", plain)
    if method == "DELETE" and gone and (one := docker.one(gone[1])):
        docker.containers.remove(one)
        return 204, b"", "text/plain"
    return 404, json.dumps({"message": f"no such thing: {plain}"}).encode(), "application/json"


class _Server(ThreadingMixIn, UnixStreamServer):
    daemon_threads = True


@contextmanager
def fake_docker(folder: Path) -> Iterator[FakeDocker]:
    """The server, on a socket in a folder."""
    path = folder / "docker.sock"
    docker = FakeDocker(host=f"unix://{path}")

    class Page(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def address_string(self) -> str:
            return "socket"

        def _reply(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            where = urlsplit(self.path).path
            docker.asked.append(f"{self.command} {where}")
            code, body, kind = _answer(docker, self.command, where)
            self.send_response(code)
            self.send_header("Server", "Docker/29.0.0 (linux)")
            self.send_header("Api-Version", "1.45")
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_POST = do_DELETE = do_HEAD = do_PUT = _reply

    with _Server(str(path), Page) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield docker
        server.shutdown()
        thread.join()
