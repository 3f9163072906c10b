"""Nodes of a service: where their Docker is reached, and what the other nodes call them. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gb10.errors import UsageError

HERE = "localhost"
"""The machine that runs the tool."""
LOOPBACK = "127.0.0.1"
SOCKETS = ("unix://", "tcp://", "http://")


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """A machine with Docker.

    ``host`` is how it is reached: ``localhost``, or what `--nodes` takes. ``address`` is what the other nodes connect
    to. ``environment`` and ``devices`` are what its network needs of a container (NCCL's interfaces, RDMA).
    """

    host: str
    address: str
    environment: Mapping[str, str] = field(default_factory=dict)
    devices: tuple[str, ...] = ()


def nodes_of(hosts: Sequence[str]) -> tuple[Node, ...]:
    """The nodes of ``--nodes``, this machine when none is named. Raises UsageError for one that is named twice."""
    twice = next((host for host in hosts if hosts.count(host) > 1), None)
    if twice:
        raise UsageError(f"the node {twice!r} is named twice", hint="each node runs one rank")
    return tuple(Node(host=host, address=address_of(host)) for host in hosts or (HERE,))


def address_of(host: str) -> str:
    """The host of ``[ssh://]user@host[:port][/socket]``; a socket or an address of Docker's is on this machine."""
    if host.startswith(SOCKETS) or host == HERE:
        return LOOPBACK
    name = host.removeprefix("ssh://").partition("/")[0].rpartition("@")[2]
    return name.partition(":")[0] if name.count(":") == 1 else name
