"""Nodes of a service: where their Docker is reached, and what the other nodes call them. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gb10.core.ssh import HERE
from gb10.errors import UsageError

LOOPBACK = "127.0.0.1"
SOCKET = "unix://"
SOCKETS = (SOCKET, "tcp://", "http://")
"""How an engine is named that ssh does not reach."""
SCHEMES = ("tcp://", "http://", "ssh://")


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """A machine with Docker.

    ``host`` is how it is reached: ``localhost``, or what `--nodes` takes. ``address`` is what the other nodes connect
    to, ``client`` what its users connect to, where that is another one. ``environment`` and ``devices`` are what its
    network needs of a container (NCCL's interfaces, RDMA). ``own`` are variables that a person set for it, which win
    over a recipe's.
    """

    host: str
    address: str
    client: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    own: Mapping[str, str] = field(default_factory=dict)
    devices: tuple[str, ...] = ()


def nodes_of(hosts: Sequence[str]) -> tuple[Node, ...]:
    """The nodes of ``--nodes`` by their names alone, this machine when none is named.

    Raises UsageError for one that is named twice, and for a number.
    """
    twice = next((host for host in hosts if hosts.count(host) > 1), None)
    if twice:
        raise UsageError(f"the node {twice!r} is named twice", hint="each node runs one rank")
    refuse_numbers(hosts)
    return tuple(Node(host=host, address=address_of(host)) for host in hosts or (HERE,))


def refuse_numbers(hosts: Sequence[str]) -> None:
    """Raise UsageError for a node that is a plain number: whoever writes it means how many."""
    number = next((host for host in hosts if host.isdecimal()), None)
    if number:
        raise UsageError(
            f"--nodes takes the names of nodes, not their number: {number}",
            hint="name each of them, the head first: --nodes HEAD,WORKER, or a cluster: --nodes @NAME",
        )


def address_of(host: str) -> str:
    """The host of ``[ssh://]user@host[:port][/socket]`` or of Docker's ``tcp://host:port``; a socket is here."""
    if host.startswith(SOCKET) or host == HERE:
        return LOOPBACK
    scheme = next((scheme for scheme in SCHEMES if host.startswith(scheme)), "")
    name = host.removeprefix(scheme).partition("/")[0].rpartition("@")[2]
    return name.partition(":")[0] if name.count(":") == 1 else name
