"""Nodes: engines of other machines, reached by ssh's own forwarding of their socket, or by an address of Docker's."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from gb10.containers.connection import Endpoint, Engine, UnreachableError, probe
from gb10.core.proc import CommandFailedError, background
from gb10.core.ssh import KEYS, SshHost, ssh_host
from gb10.errors import EngineError, UsageError

SOCKET = "/var/run/docker.sock"
ADDRESS = ("unix://", "tcp://", "http://")
PATIENCE = 30.0
"""Seconds that a node may take to answer."""
DOCKER = "; and that user must be allowed to use Docker there"


def engine_at(host: str, address: str) -> Engine:
    """The engine of a node behind an address of this machine; raises EngineError that names the node."""
    return _probe_node(host, Endpoint(host=address, origin=f"node {host}"))


@contextmanager
def reached(host: str) -> Iterator[Engine]:
    """The engine of a node while the context lasts; raises EngineError that names the node, UsageError."""
    if host.startswith(ADDRESS):
        yield _probe_node(host, Endpoint(host=host, origin=f"node {host}"))
        return
    found = ssh_host(host)
    if found is None:
        raise UsageError(f"{host!r} is no node", hint="write user@name, ssh://user@name:PORT, or unix:///path")
    # A socket's path has 108 bytes: the store's may be longer.
    with TemporaryDirectory(prefix="gb10-") as folder, ExitStack() as running:
        local, log = Path(folder, "docker.sock"), Path(folder, "ssh.log")
        try:
            alive = running.enter_context(background(_argv(found, local), log=log, scratch=Path(folder)))
        except CommandFailedError as error:
            hint = "install it: apt-get install openssh-client"
            raise EngineError(f"{host} cannot be reached: ssh does not start", where=error.tail, hint=hint) from error
        engine = _probe_once_forwarded(host, local, alive)
        if engine is None:
            raise EngineError(
                f"{host} cannot be reached",
                where=log.read_text(encoding="utf-8").strip(),
                hint=KEYS.format(name=found.words) + DOCKER,
            )
        yield engine


def _argv(found: SshHost, local: Path | str) -> list[str]:
    """OpenSSH that makes the socket of a node's Docker one of this machine."""
    return found.argv("-N", "-o", "ExitOnForwardFailure=yes", "-L", f"{local}:{found.socket or SOCKET}")


def _probe_once_forwarded(host: str, local: Path, alive: Callable[[], bool]) -> Engine | None:
    """None when ssh ends or takes no connection: it makes the file of its socket a moment before it listens."""
    endpoint = Endpoint(host=f"unix://{local}", origin=f"node {host}", node=host)
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return probe(endpoint, "user")
        except UnreachableError as error:
            if not error.refused:
                raise _silent(host, error) from error
        if not alive() or time.monotonic() > deadline:
            return None
        time.sleep(0.05)


def _probe_node(host: str, endpoint: Endpoint) -> Engine:
    try:
        return probe(endpoint, "user")
    except UnreachableError as error:
        raise _silent(host, error) from error


def _silent(host: str, error: UnreachableError) -> EngineError:
    return EngineError(
        f"the container engine of {host} does not answer",
        where=str(error),
        hint="is Docker running there, and may that user use it?",
    )
