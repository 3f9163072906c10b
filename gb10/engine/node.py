"""Nodes: engines of other machines, reached by ssh's own forwarding of their socket, or by an address of Docker's."""

import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from gb10.engine.connection import Endpoint, Engine, UnreachableError, probe
from gb10.errors import EngineError, UsageError
from gb10.host.proc import CommandFailedError, background

SOCKET = "/var/run/docker.sock"
SSH = re.compile(r"(?:ssh://)?(?P<name>(?:[^@/\s:-][^@/\s:]*@)?[^@/\s:-][^@/\s:]*)(?::(?P<port>\d+))?(?P<socket>/\S+)?")
ADDRESS = ("unix://", "tcp://", "http://")
PATIENCE = 30.0
"""Seconds that a node may take to answer."""
KEYS = "ssh must get in without a question: ssh-copy-id {name}; and that user must be allowed to use Docker there"


@contextmanager
def reached(host: str) -> Iterator[Engine]:
    """The engine of a node while the context lasts; raises EngineError that names the node, UsageError."""
    if host.startswith(ADDRESS):
        yield _asked(host, Endpoint(host=host, origin=f"node {host}"))
        return
    found = SSH.fullmatch(host)
    if found is None:
        raise UsageError(f"{host!r} is no node", hint="write user@name, ssh://user@name:PORT, or unix:///path")
    # A socket's path has 108 bytes: the store's may be longer.
    with TemporaryDirectory(prefix="gb10-") as folder, ExitStack() as running:
        local, log = Path(folder, "docker.sock"), Path(folder, "ssh.log")
        try:
            alive = running.enter_context(background(_argv(found, local), log=log))
        except CommandFailedError as error:
            hint = "install it: apt-get install openssh-client"
            raise EngineError(f"{host} cannot be reached: ssh does not start", where=error.tail, hint=hint) from error
        deadline = time.monotonic() + PATIENCE
        while not local.exists() and alive() and time.monotonic() < deadline:
            time.sleep(0.05)
        if not local.exists():
            raise EngineError(
                f"{host} cannot be reached",
                where=log.read_text(encoding="utf-8").strip(),
                hint=KEYS.format(name=ssh_name(found)),
            )
        yield _asked(host, Endpoint(host=f"unix://{local}", origin=f"node {host}"))


def ssh_name(found: re.Match[str]) -> str:
    """The node in the words of ssh-copy-id."""
    return f"-p {found['port']} {found['name']}" if found["port"] else found["name"]


def _argv(found: re.Match[str], local: Path | str) -> list[str]:
    """OpenSSH, with your own configuration and keys; it never prompts."""
    port = ["-p", found["port"]] if found["port"] else []
    options = [
        "-o",
        "BatchMode=yes",
        "-o",
        "ExitOnForwardFailure=yes",
        "-o",
        "ConnectTimeout=15",
        "-o",
        "ServerAliveInterval=15",
    ]
    return ["ssh", "-N", "-T", *options, *port, "-L", f"{local}:{found['socket'] or SOCKET}", found["name"]]


def _asked(host: str, endpoint: Endpoint) -> Engine:
    try:
        return probe(endpoint, "user")
    except UnreachableError as error:
        raise EngineError(
            f"the container engine of {host} does not answer",
            where=str(error),
            hint="is Docker running there, and may that user use it?",
        ) from error
