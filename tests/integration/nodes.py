"""What several machines talk to, for real: Debian's registry and redis, more engines, sshd in front of one."""

import hashlib
import io
import json
import os
import shutil
import signal
import socket
import sys
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote
from urllib.request import Request, urlopen

from gb10.containers.connection import Engine, client
from gb10.containers.embedded.daemon import Place, answering, down, up
from gb10.containers.embedded.privileges import mount_points
from gb10.containers.packages import unpack
from gb10.core.http_session import open_session
from gb10.core.proc import background, capture
from gb10.core.store import Store, open_store
from gb10.sources.debian.mirror import fetch_debs
from tests.hang import until
from tests.integration.debian_roots import resolved, unpacked_root

SEEN = ("/dev", "/proc", "/run", "/tmp")  # noqa: S108 - where engines and ssh have their sockets
ENV = {name: value for name, value in os.environ.items() if not name.startswith("DOCKER_")}
REGISTRY = """\
version: 0.1
log: {{accesslog: {{disabled: false}}, level: info}}
storage: {{filesystem: {{rootdirectory: "{storage}"}}, delete: {{enabled: {delete}}}}}
http: {{addr: "{address}:{port}"}}
"""
HTPASSWD = """\
auth: {{htpasswd: {{realm: test, path: "{path}"}}}}
"""
USERS = "me:$2b$04$sIKvyKvAqmaN8LfJbX7HMeOF3GMxiJXKKdHxh/.3qC0t8Ji9KsWnC\n"
PASSWORD = "secret-word"  # noqa: S105 - of the line above, by bcrypt
MANIFESTS = ", ".join(
    (
        "application/vnd.docker.distribution.manifest.v2+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.oci.image.index.v1+json",
    )
)
ROOT = Path(__file__).parents[2]
UP = """\
import json, os, sys
from gb10.containers.embedded import daemon
from gb10.core.store import open_store
daemon.CONFIGURATION = {**daemon.CONFIGURATION, "features": json.loads(sys.argv[2])}
daemon.up(open_store({"GB10_CACHE_DIR": sys.argv[1]}), os.environ)
"""
SSHD = (
    "-D",
    "-e",
    "-f",
    "/dev/null",
    "-o",
    "UsePAM=no",
    "-o",
    "PermitRootLogin=yes",
    "-o",
    "StrictModes=no",
    "-o",
    "AuthorizedKeysFile=/keys/user.pub",
    "-o",
    "HostKey=/keys/host",
    "-o",
    "PidFile=none",
)
CLIENT = "IdentityFile /keys/user\nStrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nLogLevel ERROR\n"
"""The client's settings: its key, and that any server is the right one."""


def free_port() -> int:
    with socket.socket() as probing:
        probing.bind(("127.0.0.1", 0))
        return int(probing.getsockname()[1])


def listening(port: int, address: str = "127.0.0.1") -> bool:
    with socket.socket() as probing:
        probing.settimeout(5)
        return probing.connect_ex((address, port)) == 0


@cache
def debs(store: Store, *packages: str, suite: str = "trixie") -> tuple[Path, ...]:
    """The packages and all that they need, from the real mirror."""
    with open_session(os.environ) as session:
        return tuple(fetch_debs(session, store, os.environ, resolved(*packages, suite=suite)))


@dataclass(frozen=True, slots=True)
class Registry:
    """A registry of Debian's, and what it was asked."""

    host: str
    log: Path

    def received(self, method: str, path: str) -> list[str]:
        """The lines of its log for requests like this."""
        return [line for line in self.log.read_text().splitlines() if f'"{method} /v2/' in line and path in line]

    def manifest(self, name: str, tag: str) -> dict[str, Any]:
        """An image's manifest."""
        asked = Request(f"http://{self.host}/v2/{name}/manifests/{tag}", headers={"Accept": MANIFESTS})
        with urlopen(asked) as reply:  # noqa: S310 - http, to the registry of the test
            found: dict[str, Any] = json.load(reply)
            return found

    def forget(self) -> None:
        """What was asked before."""
        os.truncate(self.log, 0)


@contextmanager
def registry(
    store: Store,
    folder: Path,
    users: str = "",
    *,
    delete: bool = False,
    namespace: str = "",
    address: str = "127.0.0.1",
) -> Iterator[Registry]:
    """A registry in a folder of its own; ``users`` are the lines of its htpasswd file, if it is to ask who one is.

    ``delete``: it allows deletion. It may live in a network namespace, which has the ``address``.
    """
    program = next(deb for deb in debs(store, "docker-registry") if deb.name.startswith("docker-registry_"))
    capture(["dpkg-deb", "--extract", str(program), str(folder / "deb")])
    port, config, log = free_port(), folder / "config.yml", folder / "registry.log"
    text = REGISTRY.format(storage=folder / "storage", address=address, port=port, delete=str(delete).lower())
    if users:
        (folder / "htpasswd").write_text(users, encoding="utf-8")
        text += HTPASSWD.format(path=folder / "htpasswd")
    config.write_text(text, encoding="utf-8")
    serve = [*within(namespace), str(folder / "deb/usr/bin/docker-registry"), "serve", str(config)]
    with background(serve, log=log):
        until(lambda: listening(port, address), "the registry")
        yield Registry(f"{address}:{port}", log)


@dataclass(frozen=True, slots=True)
class Redis:
    """A redis of Debian's, and what its own client answers."""

    url: str
    client: tuple[str, ...]

    def ask(self, *words: str) -> str:
        """The answer to a command."""
        return capture([*self.client, *words]).strip()


@contextmanager
def redis(store: Store, folder: Path, password: str) -> Iterator[Redis]:
    """A redis in a root of its own, since it wants a newer glibc than machines have, that asks for a password."""
    root, port = unpacked_root(store, folder, "redis-server"), free_port()
    enter, at = ("chroot", str(root)), ("--port", str(port), "--bind", "127.0.0.1")
    server = [*enter, "redis-server", *at, "--save", "", "--requirepass", password]
    with background(server, log=folder / "redis.log"):
        until(lambda: listening(port), "redis")
        client = (*enter, "redis-cli", "--no-auth-warning", "-a", password, "-p", str(port))
        yield Redis(f"redis://:{quote(password, safe='')}@127.0.0.1:{port}", client)


@contextmanager
def another_engine(store: Store, folder: Path, namespace: str = "", *, containerd: bool = False) -> Iterator[Engine]:
    """An engine of a store of its own, with the programs of another. It may live in a network namespace.

    Its images may lie in containerd's store, as a new Docker's do.
    """
    other = open_store({"GB10_CACHE_DIR": str(folder)})
    lend_programs(store, other)
    try:
        start_engine(folder, namespace, containerd=containerd)
        found = answering(Place(other))
        assert found
        yield replace(found, containerd=containerd)
    finally:
        down(other)


def lend_programs(store: Store, other: Store) -> None:
    """The engine's programs of a store in another one, by hard links."""
    programs, home = unpack(store, ENV), other.root / "engine"
    shutil.copytree(programs.bin.parent, home / programs.bin.parent.name, copy_function=os.link)
    shutil.copy(store.root / "engine/packages.json", home)


def start_engine(folder: Path, namespace: str = "", *, containerd: bool = False) -> None:
    """Start the engine of a store. In a network namespace it has a /dev/shm and an IPC namespace of its own, too.

    By these servers tell whether they are on one machine.
    """
    alone = ["unshare", "--ipc", "--mount", "sh", "-c", 'mount -t tmpfs gb10 /dev/shm && exec "$@"', "sh"]
    features = json.dumps({"containerd-snapshotter": containerd})
    argv = [*within(namespace), *(alone if namespace else []), sys.executable, "-c", UP, str(folder), features]
    capture(argv, env=ENV, cwd=ROOT)


def within(namespace: str) -> list[str]:
    """What starts a program in a network namespace; nothing for the machine's own."""
    return ["nsenter", f"--net=/run/netns/{namespace}"] if namespace else []


def store_of(engine: Engine) -> Store:
    """The store of another engine."""
    assert engine.data
    return open_store({"GB10_CACHE_DIR": str(engine.data.parents[1])})


def remove_containers(engine: Engine) -> None:
    """Every container of an engine, also those that run."""
    with closing(client(engine)) as sdk:
        for left in sdk.containers.list(all=True):
            left.remove(force=True)


def kill(engine: Engine) -> None:
    """End an engine as a power cut would."""
    for pid in Place(store_of(engine)).daemons():
        os.kill(pid, signal.SIGKILL)


def strike(engine: Engine) -> bool:
    """Kill an engine if it is in the middle of a layer. It stands still while that is found out."""
    daemons = Place(store_of(engine)).daemons()
    for pid in daemons:
        os.kill(pid, signal.SIGSTOP)
    struck = receiving(engine)
    for pid in daemons:
        os.kill(pid, signal.SIGKILL if struck else signal.SIGCONT)
    return struck


def receiving(engine: Engine) -> bool:
    """Whether it is in the middle of a layer."""
    alive = Place(store_of(engine)).daemons()
    return bool(alive and engine.data and list((engine.data / "tmp").glob("GetImageBlob*")))


def wake(engine: Engine) -> None:
    """Start it again."""
    up(store_of(engine), ENV)


def kill_ssh() -> None:
    """End the ssh clients that this process started, each below a shell that ends it with us."""
    parents = {pid: _field(pid, "PPid") for pid in _processes()}
    for pid, parent in parents.items():
        if _field(pid, "Name") == "ssh" and parents.get(int(parent or 0)) == str(os.getpid()):
            os.kill(pid, signal.SIGKILL)


def _processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").glob("[0-9]*")]


def _field(pid: int, name: str) -> str:
    """A field of a process's status; empty when it has ended."""
    with suppress(OSError):
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace").splitlines()
        return next((line.split("\t", 1)[1] for line in lines if line.startswith(f"{name}:")), "")
    return ""


@contextmanager
def small_disk(folder: Path) -> Iterator[Callable[[str], None]]:
    """A file system of its own, in memory; yields what changes its size."""
    folder.mkdir(parents=True)
    capture(["mount", "-t", "tmpfs", "-o", "size=4g", "gb10", str(folder)])
    try:
        yield lambda size: print(capture(["mount", "-o", f"remount,size={size}", str(folder)]))
    finally:
        capture(["umount", str(folder)])


def random_image(
    engine: Engine,
    reference: str,
    *sizes: int,
    seed: int | Sequence[int] = 0,
    created: str = "2026-11-01T00:00:00Z",
    share: float = 1.0,
) -> None:
    """An image for linux/arm64 of layers of these sizes, in bytes; no compression makes their ``share`` smaller.

    ``seed`` is of the lowest layer, or there is one for each.
    """
    seeds = [seed + number for number in range(len(sizes))] if isinstance(seed, int) else seed
    tars = [
        _tar({f"random-{number}": Random(own).randbytes(int(size * share)).ljust(size)})  # noqa: S311
        for number, (size, own) in enumerate(zip(sizes, seeds, strict=True))
    ]
    load_image(engine, reference, tars, {}, created=created)


def load_image(
    engine: Engine,
    reference: str,
    tars: Sequence[bytes],
    settings: Mapping[str, object],
    created: str = "2026-11-01T00:00:00Z",
) -> None:
    """An image for linux/arm64 of these layers, lowest first; ``settings`` are its Env, User and Labels."""
    ids = [f"sha256:{hashlib.sha256(tar).hexdigest()}" for tar in tars]
    rootfs = {"type": "layers", "diff_ids": ids}
    config = {"os": "linux", "architecture": "arm64", "created": created, "config": settings, "rootfs": rootfs}
    files = {f"{number}.tar": tar for number, tar in enumerate(tars)}
    manifest = [{"Config": "config.json", "RepoTags": [reference], "Layers": list(files)}]
    files |= {"config.json": json.dumps(config).encode(), "manifest.json": json.dumps(manifest).encode()}
    with closing(client(engine)) as sdk:
        sdk.images.load(_tar(files))


def _tar(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return out.getvalue()


@contextmanager
def buildkit(engine: Engine, socket_path: Path) -> Iterator[str]:
    """An engine's BuildKit on a socket of its own, as a buildkitd has it: the engine keeps it behind an upgrade."""
    with socket.socket(socket.AF_UNIX) as listening_at, ThreadPoolExecutor(64) as pool:
        listening_at.bind(str(socket_path))
        listening_at.listen()

        def serve() -> None:
            with suppress(OSError):  # closed: the test has ended
                while True:
                    client, _ = listening_at.accept()
                    pool.submit(_upgraded, client, engine.endpoint.host.removeprefix("unix://"), pool)

        pool.submit(serve)
        yield f"unix://{socket_path}"
        listening_at.shutdown(socket.SHUT_RDWR)


def _upgraded(client: socket.socket, path: str, pool: ThreadPoolExecutor) -> None:
    with client, socket.socket(socket.AF_UNIX) as server:
        server.connect(path)
        server.sendall(b"POST /grpc HTTP/1.1\r\nHost: docker\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n")
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += server.recv(1)
        back = pool.submit(_pump, server, client)
        _pump(client, server)
        back.result()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while content := source.recv(1 << 16):
            sink.sendall(content)
    for end in (source, sink):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@dataclass(frozen=True, slots=True)
class SshRoot:
    """Debian's ssh in a root of its own: what runs a program in it, and a folder for PATH with its client."""

    inside: tuple[str, ...]
    clients: Path


@contextmanager
def ssh_root(store: Store, folder: Path, *more: str) -> Iterator[SshRoot]:
    """A root with sshd and ssh, which sees this machine's /run and /tmp, and the /sys of its network namespace.

    The client has a key that the server takes, for root and a user ``other``. ``more`` are packages; ``rsync`` is a
    client, too, if it is among them.
    """
    root = unpacked_root(store, folder, "openssh-server", "openssh-client", "bash", *more)
    with (root / "etc/passwd").open("a") as users:
        users.write("sshd:x:100:65534::/run/sshd:/usr/sbin/nologin\nother:x:1000:1000::/home/other:/bin/bash\n")
    (root / "home/other").mkdir(parents=True)
    os.chown(root / "home/other", 1000, 1000)
    (root / "keys").mkdir(mode=0o755)
    (root / "etc/ssh/ssh_config").write_text(CLIENT, encoding="utf-8")
    enter = folder / "enter"
    lines = [
        f"mount --bind {root} {root}",
        f"mount --make-private {root}",
        *(f"mount --rbind {place} {root}{place}" for place in SEEN),
        f"mount -t sysfs gb10 {root}/sys",
        f'exec chroot {root} "$@"',
    ]
    enter.write_text("\n".join(("#!/bin/sh", "set -e", *lines, "")), encoding="utf-8")
    enter.chmod(0o755)
    # In a plain chroot "/" is no mount point, whose propagation could be set; what then gets out is undone below.
    propagation = "private" if "/" in mount_points() else "unchanged"
    inside = ("unshare", "--mount", f"--propagation={propagation}", str(enter))
    for name in ("host", "user"):
        capture([*inside, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"/keys/{name}"])
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # it stays: servers of other test runs need it, too
    clients = folder / "bin"
    clients.mkdir()
    for program in ("ssh", "rsync"):
        words = [*inside, f"/usr/bin/{program}"]
        (clients / program).write_text(f'#!/bin/sh\nexec {" ".join(words)} "$@"\n', encoding="utf-8")
        (clients / program).chmod(0o755)
    try:
        yield SshRoot(inside, clients)
    finally:
        if str(root) in mount_points():
            capture(["umount", "--recursive", str(root)])


@contextmanager
def sshd(
    root: SshRoot, log: Path, *options: str, port: int, namespace: str = "", address: str = "127.0.0.1"
) -> Iterator[None]:
    """The server, which may live in a network namespace; ``options`` as in its configuration (``SetEnv=A=b``)."""
    words = [word for option in options for word in ("-o", option)]
    argv = [*within(namespace), *root.inside, "/usr/sbin/sshd", *SSHD, *words, "-p", str(port)]
    with background(argv, log=log):
        until(lambda: listening(port, address), "sshd")
        yield


@contextmanager
def ssh_server(store: Store, folder: Path, *more: str) -> Iterator[tuple[int, Path]]:
    """Debian's sshd on this machine: its port, and a folder for PATH with ``ssh``, whose key it takes."""
    with ssh_root(store, folder, *more) as root:
        port = free_port()
        with sshd(root, folder / "sshd.log", port=port):
            yield port, root.clients


def ssh_keygen(store: Store, folder: Path) -> str:
    """A PATH with ssh-keygen: the machine's, or, on a bare one, Debian's with its own C library."""
    path = os.environ["PATH"]
    if shutil.which("ssh-keygen", path=path):
        return path
    for deb in debs(store, "openssh-client"):
        capture(["dpkg-deb", "--extract", str(deb), str(folder / "root")])
    loader = next(folder.glob("root/usr/lib/*-linux-gnu/ld-linux-*.so.*"))
    program = folder / "ssh-keygen"
    program.write_text(
        f'#!/bin/sh\nexec {loader} --library-path {loader.parent} {folder}/root/usr/bin/ssh-keygen "$@"\n',
        encoding="utf-8",
    )
    program.chmod(0o755)
    return f"{folder}:{path}"


def build_py(*arguments: str, env: dict[str, str]) -> str:
    """The tool itself, as a user calls it."""
    return capture([sys.executable, str(ROOT / "build.py"), *arguments], env=env)
