"""Which networks join machines: RoCE between their ConnectX ports, and one that all of them use for sockets. Pure."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from itertools import combinations
from typing import Final, Literal

from gb10.serving.cluster.node_facts import Gid, Hca, Netdev, NodeFacts

Kind = Literal["pair", "switch", "mesh", "gaps", "lan", "none"]
WORDS: Final[Mapping[Kind, str]] = {
    "pair": "2 nodes on one network of RoCE",
    "switch": "all nodes on one network of RoCE, by a switch",
    "mesh": "each pair of nodes has a network of RoCE of its own, without a switch",
    "gaps": "some pairs of nodes have no network of RoCE",
    "lan": "no RoCE; the nodes share an ordinary network",
    "none": "no network that all nodes share",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Rail:
    """An interface that carries RoCE: half of a port, with its RDMA device and the GID of its address."""

    netdev: Netdev
    hca: Hca
    address: IPv4Interface
    gid: Gid | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Socket:
    """The interface of a host that all others reach."""

    netdev: str
    address: IPv4Address


@dataclass(frozen=True, kw_only=True, slots=True)
class Fabric:
    """What joins some hosts. ``rails`` are those that lead to another host; ``gaps`` are pairs without any."""

    kind: Kind
    rails: Mapping[str, tuple[Rail, ...]] = field(default_factory=dict)
    sockets: Mapping[str, Socket] = field(default_factory=dict)
    gaps: tuple[tuple[str, str], ...] = ()


def rails_of(facts: NodeFacts) -> tuple[Rail, ...]:
    """The interfaces of a machine that carry RoCE now; virtual functions where no physical one does."""
    rails = (rail for hca in facts.hcas if hca.active and hca.ethernet for rail in _rails(hca, facts))
    found = tuple(sorted(rails, key=_place))
    return tuple(rail for rail in found if not rail.netdev.virtual) or found


def _rails(hca: Hca, facts: NodeFacts) -> Iterator[Rail]:
    names = dict.fromkeys([*(gid.netdev for gid in hca.gids if gid.netdev), *hca.netdevs])
    for netdev in (facts.netdevs[name] for name in names if name in facts.netdevs):
        for address in netdev.addresses if netdev.carrier else ():
            gid = next((gid for gid in hca.gids if gid.kind == "RoCE v2" and gid.ipv4 == address.ip), None)
            yield Rail(netdev=netdev, hca=hca, address=address, gid=gid)


Members = Mapping[str, Sequence[Rail]]


def fabric_of(hosts: Mapping[str, NodeFacts]) -> Fabric:
    """What joins the hosts."""
    joined = _joined({host: rails_of(facts) for host, facts in hosts.items()})
    common = {network: members for network, members in joined.items() if len(members) == len(hosts)}
    gaps = tuple(pair for pair in combinations(hosts, 2) if not any(set(pair) <= set(one) for one in joined.values()))
    if common:
        kind: Kind = "pair" if len(hosts) == 2 else "switch"
        return Fabric(kind=kind, rails=_used(common), sockets=_first(next(iter(common.values()))))
    sockets = _ordinary(hosts)
    if joined:
        return Fabric(kind="gaps" if gaps else "mesh", rails=_used(joined), sockets=sockets, gaps=gaps)
    return Fabric(kind="lan" if sockets else "none", sockets=sockets)


def _joined(rails: Mapping[str, Sequence[Rail]]) -> dict[IPv4Network, Members]:
    """The networks in which several hosts have addresses of their own."""
    found: dict[IPv4Network, dict[str, list[Rail]]] = defaultdict(lambda: defaultdict(list))
    for host, own in rails.items():
        # With link-local addresses on two ports, an address does not tell which cable leads to whom.
        ports = {one.netdev.port or one.netdev.name for one in own if one.address.is_link_local}
        for rail in own:
            if not rail.address.is_link_local or len(ports) <= 1:
                found[rail.address.network][host].append(rail)
    joined: dict[IPv4Network, Members] = {}
    for network, members in found.items():
        addresses = [rail.address.ip for own in members.values() for rail in own]
        if len(members) > 1 and len(set(addresses)) == len(addresses):
            joined[network] = members
    return joined


def _used(networks: Mapping[IPv4Network, Members]) -> dict[str, tuple[Rail, ...]]:
    """Of each host the rails in some networks, one for each device, in the order of their names."""
    found: dict[str, dict[str, Rail]] = defaultdict(dict)
    for members in networks.values():
        for host, rails in members.items():
            for rail in rails:
                found[host].setdefault(rail.hca.name, rail)
    return {host: tuple(sorted(rails.values(), key=_place)) for host, rails in found.items()}


def _place(rail: Rail) -> tuple[str, str]:
    return rail.netdev.pci or "", rail.netdev.name


def _first(members: Members) -> dict[str, Socket]:
    return {host: Socket(netdev=rails[0].netdev.name, address=rails[0].address.ip) for host, rails in members.items()}


def _ordinary(hosts: Mapping[str, NodeFacts]) -> dict[str, Socket]:
    """The fastest network in which every host has an address of its own; empty when there is none.

    Bridges of container engines drop out: they have the same address on each machine.
    """
    found: dict[IPv4Network, dict[str, tuple[Netdev, IPv4Address]]] = defaultdict(dict)
    for host, facts in hosts.items():
        for netdev in facts.netdevs.values():
            for address in netdev.addresses if netdev.carrier and netdev.master is None else ():
                found[address.network].setdefault(host, (netdev, address.ip))
    whole = [members for members in found.values() if len(members) == len(hosts)]
    own = [members for members in whole if len({address for _, address in members.values()}) == len(hosts)]
    best = max(own, key=_speed, default={})
    return {host: Socket(netdev=netdev.name, address=address) for host, (netdev, address) in best.items()}


def _speed(members: Mapping[str, tuple[Netdev, IPv4Address]]) -> tuple[bool, int]:
    """Real adapters first, then by the slowest."""
    netdevs = [netdev for netdev, _ in members.values()]
    return all(one.pci for one in netdevs), min(one.speed or 0 for one in netdevs)


ADDRESSES: Final = ("VLLM_HOST_IP", "SGLANG_HOST_IP")
"""Where an engine listens for the others; on a machine with several networks it may guess the wrong one."""
INTERFACES: Final = ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "MN_IF_NAME", "UCX_NET_DEVICES")
OMPI: Final = "OMPI_MCA_btl_tcp_if_include"
MESH: Final = {"NCCL_NET_PLUGIN": "none", "NCCL_IB_SUBNET_AWARE_ROUTING": "1", "NCCL_IB_MERGE_NICS": "0"}
"""NCCL takes the device whose network the other node has. Without that it takes the first."""
SHARED: Final = {"NCCL_IB_MERGE_NICS": "1"}
"""Both halves of a port count as one adapter."""


def settings_of(fabric: Fabric, host: str, address: str | None = None) -> dict[str, str]:
    """The variables of a host; none of what is not known. ``address`` replaces the one that was found."""
    found = {**_sockets(fabric, host), **_roce(fabric, host)}
    return {**found, **dict.fromkeys(ADDRESSES, address)} if address else found


def _sockets(fabric: Fabric, host: str) -> dict[str, str]:
    socket = fabric.sockets.get(host)
    if socket is None:
        return {}
    interfaces = dict.fromkeys((*INTERFACES, OMPI), socket.netdev)
    return {**dict.fromkeys(ADDRESSES, str(socket.address)), "NCCL_SOCKET_IFNAME": f"={socket.netdev}", **interfaces}


def _roce(fabric: Fabric, host: str) -> dict[str, str]:
    """Which network NCCL uses, and no other: where that does not work it fails, and does not become slow in silence."""
    if fabric.kind not in ("pair", "switch", "mesh"):
        return {"NCCL_NET": "Socket"} if fabric.sockets else {}
    devices = ",".join(rail.hca.name for rail in fabric.rails[host])
    more: Mapping[str, str] = MESH if fabric.kind == "mesh" else SHARED
    return {"NCCL_NET": "IB", "NCCL_IB_DISABLE": "0", "NCCL_IB_HCA": f"={devices}", **more}
