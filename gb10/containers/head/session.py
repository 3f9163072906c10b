"""A session on the head: its registry and its tunnels, for as long as this process holds the other end of them."""

import re
import secrets
import shlex
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from shutil import rmtree
from threading import Lock
from typing import Final

from gb10.containers.failure import explained
from gb10.containers.node import ADDRESS, DOCKER, SOCKET
from gb10.containers.packages import fetch_packages
from gb10.core.child_sessions import Dialogue, dialogue
from gb10.core.machine import ARCHITECTURES
from gb10.core.proc import CommandFailedError, capture, last_lines
from gb10.core.ssh import KEYS, SshHost, ssh_host
from gb10.core.store import Store, file_sha256, is_sealed, seal
from gb10.errors import EngineError, UsageError

PACKAGE: Final = "docker-registry"
"""Version 2.8 in trixie, 7 MB. It needs glibc 2.34, as Ubuntu 22.04 and DGX OS have it, and nothing else."""


def registry_program(store: Store, env: Mapping[str, str], machine: str) -> Path:
    """The program for a machine in the kernel's spelling, fetched when the store lacks it or it is damaged.

    Raises EngineError (no apt, mirror or signature wrong, an unknown machine) and UsageError (no mirror is known).
    """
    if machine not in ARCHITECTURES:
        raise EngineError(f"no registry is known for a head of {machine}", hint=f"heads: {', '.join(ARCHITECTURES)}")
    folder = store.entry("engine", f"{PACKAGE}-{machine}")
    with store.locked(PACKAGE):
        if not is_sealed(folder / PACKAGE):
            store.replace(folder, lambda out: _unpack(store, env, ARCHITECTURES[machine], out))
    return folder / PACKAGE


def _unpack(store: Store, env: Mapping[str, str], architecture: str, out: Path) -> None:
    with (
        fetch_packages(store, env, (PACKAGE,), architecture) as debs,
        explained(f"{PACKAGE} cannot be unpacked", hint="see whether the store's disk is full, and run again"),
    ):
        for deb in debs:
            capture(["dpkg-deb", "--extract", str(deb), str(out / "tree")])
    (out / "tree/usr/bin" / PACKAGE).rename(out / PACKAGE)
    rmtree(out / "tree")
    seal(out / PACKAGE)


SCRIPT: Final = Path(__file__).with_name("head.sh")
LOOK: Final = (
    'uname -m; f="${XDG_CACHE_HOME:-$HOME/.cache}/gb10/docker-registry"; echo "$f"; [ ! -f "$f" ] || sha256sum "$f"'
)
TAKE: Final = 'mkdir -p "${1%/*}" && cat >"$1.part" && chmod 755 "$1.part" && mv "$1.part" "$1"'
PATIENCE: Final = 120.0
"""Seconds that the registry may take to start, and a node to answer."""
LONGEST: Final = 6 * 3600.0
"""Seconds that containerd may take for an image: it tells nothing before the end."""
K3S: Final = "on the node, `k3s ctr images ls` must work for that user, or with sudo without a question"


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """A node as the head reaches it by ssh, and its Docker's socket; none where K3s runs."""

    host: str
    ssh: SshHost
    socket: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Way:
    """The way to a node: the address of its Docker here, and the registry's port there."""

    engine: str
    port: int
    machine: str = ""
    """The node's machine in the kernel's spelling; only where K3s runs, which no Docker tells for."""


@dataclass(kw_only=True, slots=True)
class Session:
    """What runs on the head. ``port`` is the registry's, on the head."""

    port: int
    sockets: str
    nodes: Sequence[Node]
    pipe: Dialogue
    found: dict[int, Way | EngineError] = field(default_factory=dict)
    taken: dict[int, str] = field(default_factory=dict)
    """Why a node with K3s did not take an image; empty when it did."""
    lock: Lock = field(default_factory=Lock)

    def way(self, node: Node) -> Way:
        """The way to a node, once there is one; raises EngineError that names the node."""
        number = self.nodes.index(node) + 1
        self._read_until(node, lambda: number in self.found, PATIENCE)
        found = self.found[number]
        if isinstance(found, EngineError):
            raise found
        return found

    def take(self, node: Node, platform: str, source: str, name: str) -> None:
        """Let the containerd of a node with K3s pull what it lacks of an image. Raises EngineError."""
        number = self.nodes.index(node) + 1
        self.pipe.say(f"k3s {number} {platform} {source} {name}")
        self._read_until(node, lambda: number in self.taken, LONGEST)
        if self.taken[number]:
            raise EngineError(f"the containerd of {node.host} does not take it", where=self.taken[number], hint=K3S)

    def _read_until(self, node: Node, ready: Callable[[], bool], patience: float) -> None:
        deadline = time.monotonic() + patience
        while not ready():
            with self.lock:  # one reads; what it read may be what others wait for
                line = None if ready() else self.pipe.line(1.0)
            if line == "" or time.monotonic() > deadline:
                where = f"the head: {self.pipe.errors()}" if line == "" else f"no answer in {patience:.0f} s"
                raise EngineError(f"{node.host} cannot be reached from the head", where=where, hint=_keys(node))
            if line:
                self._note(line)

    def _note(self, line: str) -> None:
        word, number, rest = (*line.split(" ", 2), "", "")[:3]
        port, _, machine = rest.partition(" ")
        if word == "node" and number.isdigit() and port.isdigit():
            self.found[int(number)] = Way(
                engine=f"unix://{self.sockets}/{number}.sock", port=int(port), machine=machine
            )
        elif word in ("took", "left") and number.isdigit():
            self.taken[int(number)] = rest or ("" if word == "took" else "no reason given")
        elif word == "lost" and number.isdigit() and 0 < int(number) <= len(self.nodes):
            node = self.nodes[int(number) - 1]
            self.found[int(number)] = EngineError(
                f"{node.host} cannot be reached from the head", where=rest, hint=_keys(node)
            )

    def done(self) -> str:
        """Everything went well: what is not of the image may go. Why it stays, if it does; else empty."""
        self.pipe.say("done")
        deadline = time.monotonic() + PATIENCE
        while line := self.pipe.line(max(0.0, deadline - time.monotonic())):
            word, _, why = line.partition(" ")
            if word in ("collected", "error"):
                return why
        return "the head did not tell whether old layers went: " + (self.pipe.errors() or "no answer")


def _keys(node: Node) -> str:
    return f"on the head: {KEYS.format(name=node.ssh.words)}{DOCKER}"


def node_of(host: str, *, k3s: bool = False) -> Node:
    """A node by what `--host` takes; raises UsageError for one that no ssh reaches. Pure."""
    found = ssh_host(host)
    if found is None or host.startswith(ADDRESS):
        raise UsageError(
            f"{host!r} is no node that the head can reach", hint="write user@name, or ssh://user@name:PORT"
        )
    socket = "" if k3s else found.socket or SOCKET
    return Node(host=host, ssh=found, socket=socket)


@contextmanager
def on_this_machine(store: Store, env: Mapping[str, str], machine: str, nodes: Sequence[Node]) -> Iterator[Session]:
    """The session when this machine is the head. Raises EngineError."""
    program = registry_program(store, env, machine)
    work = f"{tempfile.gettempdir()}/gb10-head-{secrets.token_hex(8)}"
    argv = ["sh", "-c", SCRIPT.read_text(encoding="utf-8"), "sh", str(program), str(store.root / "registry"), work]
    with _opened([*argv, *_words(nodes)], env, work, nodes) as session:
        yield session


@contextmanager
def on_host(store: Store, env: Mapping[str, str], head: str, nodes: Sequence[Node]) -> Iterator[Session]:
    """The session on a head that ssh reaches; its sockets are forwarded here. Raises EngineError, UsageError."""
    found = ssh_host(head)
    if found is None:
        raise UsageError(f"{head!r} is no head", hint="write user@name, ssh://user@name:PORT, or localhost")
    program = _placed(store, env, head, found)
    work = f"/tmp/gb10-head-{secrets.token_hex(8)}"  # noqa: S108 - a new folder that only its user may enter
    script = ["sh", "-c", SCRIPT.read_text(encoding="utf-8"), "sh", program, "", work, *_words(nodes)]
    with tempfile.TemporaryDirectory(prefix="gb10-") as here:
        ways = [f"-L{here}/{number}.sock:{work}/{number}.sock" for number in range(1, len(nodes) + 1)]
        with _opened(found.argv(*ways, command=shlex.join(script)), env, here, nodes) as session:
            yield session


def _words(nodes: Sequence[Node]) -> list[str]:
    return [word for node in nodes for word in (node.ssh.port or "", node.ssh.name, node.socket)]


def _placed(store: Store, env: Mapping[str, str], head: str, found: SshHost) -> str:
    """The path of the registry's program on the head, sent there unless the head has these bytes."""
    try:
        machine, path, *sums = capture(found.argv(command=shlex.join(["sh", "-c", LOOK])), env=env).splitlines()
        program = registry_program(store, env, machine)
        if not sums or sums[0].split()[0] != file_sha256(program):
            argv = found.argv(command=shlex.join(["sh", "-c", TAKE, "sh", path]))
            capture(["sh", "-c", 'exec "$@" <"$0"', str(program), *argv], env=env)
    except (CommandFailedError, ValueError) as error:
        where = error.tail if isinstance(error, CommandFailedError) else "its shell does not answer as one"
        raise EngineError(
            f"the head {head} cannot be used", where=where, hint=KEYS.format(name=found.words) + DOCKER
        ) from error
    return path


@contextmanager
def _opened(argv: Sequence[str], env: Mapping[str, str], sockets: str, nodes: Sequence[Node]) -> Iterator[Session]:
    with dialogue(argv, env=env) as pipe:
        line = pipe.line(PATIENCE) or f"error {last_lines(pipe.errors(), 5) or 'it gave no answer'}"
        port = re.fullmatch(r"registry (\d{1,5})", line)
        if port is None:
            raise EngineError("no registry starts on the head", where=line.removeprefix("error ").strip())
        yield Session(port=int(port[1]), sockets=sockets, nodes=nodes, pipe=pipe)
