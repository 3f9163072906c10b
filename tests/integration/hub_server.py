"""A Hub of our own: what huggingface_hub asks of one for private model repositories with large files, over real HTTP.

One branch, one token, large files by Git LFS behind a redirect to another host. No Xet.
"""

import base64
import hashlib
import json
import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from gb10.core.proc import capture
from tests.quiet_handler import QuietHandler

LARGE = (".whl", ".safetensors", ".gguf", ".bin", ".pth")
"""Ends of the names of files that lie in Git LFS."""
TOKEN = "hf_test"  # noqa: S105 - of this server alone


def blob_name(content: bytes) -> str:
    """Git's SHA-1 of a blob."""
    return hashlib.sha1(b"blob %d\0%s" % (len(content), content)).hexdigest()  # noqa: S324 - git's own names


@dataclass(slots=True)
class Repository:
    """Commits, oldest first: each maps a path to the sha256 of its bytes. A gated one shows its names to all."""

    commits: list[dict[str, str]] = field(default_factory=lambda: [{}])
    private: bool = True
    gated: bool = False

    def sha(self, number: int = -1) -> str:
        """The name of a commit."""
        return hashlib.sha1(f"{number % len(self.commits)} {self.commits[number]}".encode()).hexdigest()  # noqa: S324

    def tree(self, revision: str) -> dict[str, str] | None:
        """The files at a commit, or at the branch."""
        names = {self.sha(number): tree for number, tree in enumerate(self.commits)} | {"main": self.commits[-1]}
        return names.get(revision)


@dataclass(slots=True)
class FakeHub:
    """Repositories by name, blobs by sha256, and a log of what was asked; large files lie on a host of their own."""

    url: str = ""
    storage: str = ""
    repositories: dict[str, Repository] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    drop_after: int | None = None
    """Bytes of the next large download after which the connection breaks off."""
    stall_after: int | None = None
    """Bytes of each large download after which nothing more comes, until this is None again."""
    damaged: dict[str, int] = field(default_factory=dict)
    """How many more times a content is sent with a wrong byte, by its sha256."""
    before_commit: list[dict[str, bytes]] = field(default_factory=list)
    """What somebody else commits just before the next commits arrive."""

    def put(self, repo: str, files: dict[str, bytes | None]) -> None:
        """A commit, by whoever may write; None removes."""
        made = self.repositories[repo]
        tree = dict(made.commits[-1])
        for path, content in files.items():
            if content is None:
                del tree[path]
            else:
                tree[path] = self.keep(content)
        made.commits.append(tree)

    def read(self, repo: str, path: str) -> bytes:
        """A file of the branch."""
        return self.blobs[self.repositories[repo].commits[-1][path]]

    def keep(self, content: bytes) -> str:
        sha256 = hashlib.sha256(content).hexdigest()
        self.blobs[sha256] = content
        return sha256

    def sent(self, sha256: str) -> bytes:
        """The bytes that a content is sent as: wrong ones as often as ``damaged`` says."""
        content = self.blobs[sha256]
        if self.damaged.get(sha256):
            self.damaged[sha256] -= 1
            return bytes([content[0] ^ 1]) + content[1:]
        return content

    def listed(self, path: str, sha256: str) -> dict[str, object]:
        """A file in the list of a tree."""
        content = self.blobs[sha256]
        large = {"lfs": {"oid": sha256, "size": len(content), "pointerSize": 134}} if path.endswith(LARGE) else {}
        return {"type": "file", "path": path, "size": len(content), "oid": blob_name(content), **large}

    def asked(self, *words: str) -> list[str]:
        """The logged requests that hold all of these words."""
        return [line for line in self.log if all(word in line for word in words)]


class Handler(QuietHandler):
    """HTTP/1.1, one method per kind of request."""

    protocol_version = "HTTP/1.1"
    hub: FakeHub

    def do_HEAD(self) -> None:
        self.answer()

    def do_GET(self) -> None:
        self.answer()

    def do_POST(self) -> None:
        self.answer()

    def do_PUT(self) -> None:
        self.answer()

    def answer(self) -> None:
        chunked = self.headers.get("Transfer-Encoding") == "chunked"
        body = b"".join(self.chunks()) if chunked else self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = unquote(self.path.partition("?")[0])
        self.hub.log.append(f"{self.command} {path} {self.headers.get('Range', '')} {len(body)}".rstrip())
        for pattern, act in ROUTES:
            found = re.fullmatch(pattern, f"{self.command} {path}")
            if found:
                act(self, body, **found.groupdict())
                return
        self.reply(HTTPStatus.NOT_FOUND, {"error": "no such route"})

    def chunks(self) -> Iterator[bytes]:
        """The body of a request without a length."""
        while size := int(self.rfile.readline(), 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def repository(self, repo: str) -> Repository | None:
        """The repository, if the token may see it; else the Hub's own answer, the same for both reasons."""
        found = self.hub.repositories.get(repo)
        if found and (not found.private or self.headers.get("Authorization") == f"Bearer {TOKEN}"):
            return found
        self.reply(HTTPStatus.UNAUTHORIZED, {"error": "Repository not found"}, {"X-Error-Code": "RepoNotFound"})
        return None

    def info(self, _: bytes, repo: str, revision: str) -> None:
        found = self.repository(repo)
        if found is None:
            return
        sha = next((found.sha(number) for number in range(len(found.commits)) if found.sha(number) == revision), None)
        sha = found.sha() if revision == "main" else sha
        if sha is None:
            self.reply(HTTPStatus.NOT_FOUND, {"error": "Invalid rev id"}, {"X-Error-Code": "RevisionNotFound"})
            return
        files = [{"rfilename": path} for path in found.tree(sha) or ()]
        self.reply(HTTPStatus.OK, {"id": repo, "sha": sha, "private": True, "siblings": files, "tags": []})

    def refs(self, _: bytes, repo: str) -> None:
        found = self.repository(repo)
        if found:
            main = {"name": "main", "ref": "refs/heads/main", "targetCommit": found.sha()}
            self.reply(HTTPStatus.OK, {"branches": [main], "converts": [], "tags": []})

    def listing(self, _: bytes, repo: str, revision: str) -> None:
        found = self.repository(repo)
        tree = found.tree(revision) if found else None
        if tree is not None:
            self.reply(HTTPStatus.OK, [self.hub.listed(path, sha256) for path, sha256 in tree.items()])

    def resolve(self, _: bytes, repo: str, revision: str, path: str) -> None:
        found = self.repository(repo)
        tree = found.tree(revision) if found else None
        if found is None or tree is None:
            return
        if found.gated and self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self.reply(HTTPStatus.UNAUTHORIZED, {"error": "Access is restricted"}, {"X-Error-Code": "GatedRepo"})
            return
        if path not in tree:
            self.reply(HTTPStatus.NOT_FOUND, {"error": "Entry not found"}, {"X-Error-Code": "EntryNotFound"})
            return
        content = self.hub.blobs[tree[path]]
        about = {"X-Repo-Commit": revision, "ETag": f'"{blob_name(content)}"'}
        if path.endswith(LARGE):
            about |= {
                "X-Linked-Etag": f'"{tree[path]}"',
                "X-Linked-Size": str(len(content)),
                "Location": f"{self.hub.storage}/storage/{tree[path]}",
            }
            self.reply(HTTPStatus.FOUND, b"", about)
        else:
            part = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
            asked = slice(int(part[1]), int(part[2]) + 1 if part[2] else None) if part else slice(None)
            self.reply(HTTPStatus.PARTIAL_CONTENT if part else HTTPStatus.OK, content[asked], about)

    def stored(self, _: bytes, sha256: str) -> None:
        if self.headers.get("Authorization"):  # the token is the Hub's alone
            self.reply(HTTPStatus.BAD_REQUEST, b"")
            return
        content, drop = self.hub.sent(sha256), self.hub.drop_after
        found = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        start = int(found[1]) if found else 0
        status = HTTPStatus.PARTIAL_CONTENT if found else HTTPStatus.OK
        about = {"Content-Range": f"bytes {start}-{len(content) - 1}/{len(content)}"} if found else {}
        if drop is None and self.hub.stall_after is None:
            self.reply(status, content[start:], about)
            return
        if drop is None:
            self.reply(status, content[start:], about, sent=self.hub.stall_after)
            while self.hub.stall_after is not None:
                time.sleep(0.02)
            self.close_connection = True
            return
        self.hub.drop_after = None
        self.reply(status, content[start:], about, sent=drop)
        self.close_connection = True

    def preupload(self, body: bytes, repo: str) -> None:
        if self.repository(repo):
            files = [
                {
                    "path": file["path"],
                    "shouldIgnore": False,
                    "uploadMode": "lfs" if file["path"].endswith(LARGE) else "regular",
                }
                for file in json.loads(body)["files"]
            ]
            self.reply(HTTPStatus.OK, {"files": files})

    def batch(self, body: bytes, repo: str) -> None:
        if self.repository(repo):
            objects = json.loads(body)["objects"]
            for one in objects:
                if one["oid"] not in self.hub.blobs:
                    one["actions"] = {"upload": {"href": f"{self.hub.storage}/storage/{one['oid']}"}}
            self.reply(HTTPStatus.OK, {"transfer": "basic", "objects": objects})

    def upload(self, body: bytes, sha256: str) -> None:
        kept = self.hub.keep(body)
        self.reply(HTTPStatus.OK if kept == sha256 else HTTPStatus.BAD_REQUEST, b"")

    def commit(self, body: bytes, repo: str) -> None:
        found = self.repository(repo)
        if found is None:
            return
        if self.hub.before_commit:
            self.hub.put(repo, dict(self.hub.before_commit.pop()))
        lines = [json.loads(line) for line in body.splitlines()]
        if lines[0]["value"].get("parentCommit", found.sha()) != found.sha():
            error = "A commit has happened since. Please refresh and try again."
            self.reply(HTTPStatus.PRECONDITION_FAILED, {"error": error})
            return
        values = {line["value"]["path"]: (line["key"], line["value"]) for line in lines[1:]}
        self.hub.put(repo, {path: self.content(*value) for path, value in values.items()})
        self.reply(
            HTTPStatus.OK,
            {"commitUrl": f"{self.hub.url}/{repo}/commit/{found.sha()}", "commitOid": found.sha(), "success": True},
        )

    def content(self, kind: str, value: dict[str, Any]) -> bytes:
        return self.hub.blobs[value["oid"]] if kind == "lfsFile" else base64.b64decode(value["content"])

    def reply(
        self,
        status: HTTPStatus,
        content: bytes | object,
        headers: dict[str, str] | None = None,
        sent: int | None = None,
    ) -> None:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **(headers or {})}.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data[:sent])
            self.wfile.flush()


REPO = r"(?P<repo>[\w.-]+/[\w.-]+)"
ROUTES = (
    (rf"GET /api/models/{REPO}/revision/(?P<revision>[\w.-]+)", Handler.info),
    (rf"GET /api/models/{REPO}/refs", Handler.refs),
    (rf"GET /api/models/{REPO}/tree/(?P<revision>\w+)", Handler.listing),
    (rf"(?:HEAD|GET) /{REPO}/resolve/(?P<revision>\w+)/(?P<path>.+)", Handler.resolve),
    (r"(?:HEAD|GET) /storage/(?P<sha256>\w+)", Handler.stored),
    (r"PUT /storage/(?P<sha256>\w+)", Handler.upload),
    (rf"POST /api/models/{REPO}/preupload/main", Handler.preupload),
    (rf"POST /{REPO}\.git/info/lfs/objects/batch", Handler.batch),
    (rf"POST /api/models/{REPO}/commit/main", Handler.commit),
)


@contextmanager
def fake_hub() -> Iterator[FakeHub]:
    """A Hub that listens until the context ends."""
    hub = FakeHub()
    handler = type("HubHandler", (Handler,), {"hub": hub})
    with (
        ThreadingHTTPServer(("127.0.0.1", 0), handler) as front,
        ThreadingHTTPServer(("127.0.0.1", 0), handler) as storage,
    ):
        hub.url, hub.storage = (f"http://127.0.0.1:{server.server_port}" for server in (front, storage))
        for server in (front, storage):
            server.daemon_threads = True
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield hub
        finally:
            front.shutdown()
            storage.shutdown()


def make_signer(folder: Path, name: str, env: Mapping[str, str]) -> dict[str, str]:
    """A key ``name`` of ssh-keygen's in the folder, and the settings of a machine that signs by it and trusts it."""
    capture(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], env=env)
    public = (folder / f"{name}.pub").read_text(encoding="ascii")
    (folder / f"{name}.signers").write_text(f"{name}@example {public}", encoding="ascii")
    return {"GB10_WHEEL_CACHE_SIGNERS": str(folder / f"{name}.signers"), "GB10_WHEEL_CACHE_KEY": str(folder / name)}
