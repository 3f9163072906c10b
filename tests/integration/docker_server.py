"""Stands for a Docker that somebody else runs: a real HTTP server on a socket, whose answers a test may make odd."""

import base64
import io
import json
import re
import struct
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer
from threading import Thread
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.quiet_handler import QuietHandler

LABEL: Final = "io.github.gb10.service"
IMAGE: Final = "sha256:" + "1" * 64
STAT: Final = "application/x-tar"
JSON: Final = "application/json"
VERSION: Final = {"Version": "29.0.0", "ApiVersion": "1.45", "Os": "linux"}
INFO: Final = {
    "ID": "an-engine",
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


@dataclass(kw_only=True, slots=True)
class HeldImage:
    """An image: what the engine shows of it, its history with the newest line first, and its files by their paths."""

    attrs: dict[str, Any]
    history: list[dict[str, Any]] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)

    def named(self, name: str) -> bool:
        """Whether a name or an id is this image's."""
        return name in (self.attrs["Id"], *self.attrs["RepoTags"])

    def packed(self, path: str) -> bytes | None:
        """A tar of a file, or of a folder and what is below it, as Docker names them; None where nothing is."""
        plain = path.removesuffix("/.").rstrip("/")
        found = {name: content for name, content in self.files.items() if name == plain or name.startswith(f"{plain}/")}
        if not found:
            return None
        above, written = len(plain.rpartition("/")[0]) + 1, io.BytesIO()
        with tarfile.open(fileobj=written, mode="w") as tar:
            if plain not in found:
                folder = tarfile.TarInfo(plain[above:] if path == plain else "./")
                folder.type = tarfile.DIRTYPE
                tar.addfile(folder)
            for name, content in found.items():
                member = tarfile.TarInfo(name[above:] if path == plain else name.removeprefix(f"{plain}/"))
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
        return written.getvalue()


@dataclass(slots=True)
class FakeDocker:
    """What it has, what it was asked, and the answers that are other ones than its own (by the end of the path)."""

    host: str
    containers: list[dict[str, Any]] = field(default_factory=list)
    images: list[HeldImage] = field(default_factory=list)
    opened: dict[str, HeldImage] = field(default_factory=dict)
    """Containers that only hold an image open."""
    log: bytes = b"loading\n"
    asked: list[str] = field(default_factory=list)
    odd: dict[str, bytes] = field(default_factory=dict)

    def image(self, name: str) -> HeldImage | None:
        """An image by a name or its id."""
        return next((one for one in self.images if one.named(name)), None)

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


Answer = tuple[int, bytes, str]


def _of_images(docker: FakeDocker, path: str, asked: Mapping[str, str]) -> Answer | None:
    """The answer to a question about an image; None for other questions."""
    image = re.fullmatch(r"/images/(.+)/(json|history|tag)", path)
    if image is None:
        return None
    found = docker.image(image[1])
    if found is None:
        return 404, json.dumps({"message": f"No such image: {image[1]}"}).encode(), JSON
    if image[2] == "tag":
        found.attrs["RepoTags"].append(f"{asked['repo']}:{asked['tag']}")
        return 201, b"", "text/plain"
    return 200, json.dumps(found.attrs if image[2] == "json" else found.history).encode(), JSON


def _of_open_images(docker: FakeDocker, method: str, path: str, asked: Mapping[str, str]) -> Answer | None:
    """The answer to a question about a container that only holds an image open; None for other questions."""
    if path == "/containers/create" and (found := docker.image(asked["Image"])):
        identity = f"{len(docker.opened) + 1:064x}"
        docker.opened[identity] = found
        return 201, json.dumps({"Id": identity}).encode(), JSON
    opened = re.fullmatch(r"/containers/([0-9a-f]{64})(/json|/archive)?", path)
    if opened is None or opened[1] not in docker.opened:
        return None
    if opened[2] == "/json":
        return 200, json.dumps({"Id": opened[1]}).encode(), JSON
    if method == "DELETE":
        del docker.opened[opened[1]]
        return 204, b"", "text/plain"
    packed = docker.opened[opened[1]].packed(asked["path"])
    return (404, b'{"message": "no such file"}', JSON) if packed is None else (200, packed, STAT)


class _Server(ThreadingMixIn, UnixStreamServer):
    daemon_threads = True


@contextmanager
def fake_docker(folder: Path) -> Iterator[FakeDocker]:
    """The server, on a socket in a folder."""
    path = folder / "docker.sock"
    docker = FakeDocker(host=f"unix://{path}")

    class Page(QuietHandler):
        protocol_version = "HTTP/1.1"

        def address_string(self) -> str:
            return "socket"

        def _reply(self) -> None:
            sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            where, asked = urlsplit(self.path).path, dict(parse_qsl(urlsplit(self.path).query))
            docker.asked.append(f"{self.command} {where}")
            asked |= {"Image": json.loads(sent)["Image"]} if where.endswith("/containers/create") else {}
            plain = re.sub(r"^/v[0-9.]+", "", unquote(where))
            found = _of_images(docker, plain, asked) or _of_open_images(docker, self.command, plain, asked)
            code, body, kind = found or _answer(docker, self.command, where)
            self.send_response(code)
            self.send_header("Server", "Docker/29.0.0 (linux)")
            self.send_header("Api-Version", "1.45")
            self.send_header("Content-Type", kind)
            if kind == STAT:
                self.send_header("X-Docker-Container-Path-Stat", base64.b64encode(b'{"name": "x", "size": 1}').decode())
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
