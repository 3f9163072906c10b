"""Which networks join machines: RoCE between their ConnectX ports, and one that all of them use for sockets. Pure."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from itertools import combinations
from typing import Final, Literal

from gb10.serving.cluster.cabling import Cable, ring_order
from gb10.serving.cluster.node_facts import Gid, Hca, Netdev, NodeFacts

Kind = Literal["pair", "switch", "switches", "mesh", "ring", "gaps", "lan", "none"]
WORDS: Final[Mapping[Kind, str]] = {
    "pair": "2 nodes on one network of RoCE",
    "switch": "all nodes on one network of RoCE, by a switch",
    "switches": "all nodes on a network of RoCE at each of their ports, by a switch for each",
    "mesh": "each pair of nodes has a network of RoCE of its own, without a switch",
    "ring": "each node has a network of RoCE with two others, in one ring without a switch",
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
    """What joins some hosts. ``rails`` are those that lead to another host; ``gaps`` are pairs without any.

    ``cables`` join two hosts each; ``order`` is that of a ring, the first host first.
    """

    kind: Kind
    rails: Mapping[str, tuple[Rail, ...]] = field(default_factory=dict)
    sockets: Mapping[str, Socket] = field(default_factory=dict)
    gaps: tuple[tuple[str, str], ...] = ()
    cables: tuple[Cable, ...] = ()
    order: tuple[str, ...] = ()


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
    cables = _cables(joined)
    if common:
        several = len({_port(rails[0]) for members in common.values() for rails in members.values()}) > 1
        kind: Kind = "pair" if len(hosts) == 2 else "switches" if several else "switch"
        sockets = _first(next(iter(common.values())))
        return Fabric(kind=kind, rails=_used(common), sockets=sockets, cables=cables)
    sockets = _ordinary(hosts)
    if joined:
        order = ring_order(tuple(hosts), cables)
        kind = "ring" if order else "gaps" if gaps else "mesh"
        return Fabric(kind=kind, rails=_used(joined), sockets=sockets, gaps=gaps, cables=cables, order=order)
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


def _cables(networks: Mapping[IPv4Network, Members]) -> tuple[Cable, ...]:
    """The cables of networks with two hosts; both halves of a port are one cable."""
    found: dict[tuple[tuple[str, str], tuple[str, str]], list[str]] = defaultdict(list)
    for network, members in networks.items():
        if len(members) == 2:
            one, other = members
            for rail, opposite in zip(members[one], members[other], strict=False):
                found[(one, _port(rail)), (other, _port(opposite))].append(str(network))
    return tuple(Cable(ends=ends, networks=tuple(own)) for ends, own in found.items())


def _port(rail: Rail) -> str:
    return rail.netdev.port or rail.netdev.name


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
RING: Final = {
    "NCCL_NET_PLUGIN": "none",
    "NCCL_ALGO": "Ring",
    "NCCL_IB_SUBNET_AWARE_ROUTING": "1",
    "NCCL_IB_MERGE_NICS": "1",
}
"""NCCL 2.30 and later as it is. A listener names the networks of the adapter that it merged, so both ports must be
merged (NCCL's net_ib/connect.cc, ncclIbListen). Trees are connected at the start where cuMem is off (init.cc,
runtimeConn), and a ring has no way for them: NCCL_CUMEM_ENABLE must not be 0. Reported to work by
tonyd2wild/GLM-5.3-Int4-Int8Mix-TP4-4x-DGX-Spark#2."""
PATCHED: Final = "NCCL_SWITCHLESS_RING_ONLY"
"""The variable of patched libraries that connect nothing but a ring; it says that an image has one."""
PATCHED_RING: Final = {
    "NCCL_NET_PLUGIN": "none",
    "NCCL_ALGO": "Ring",
    "NCCL_IB_SUBNET_AWARE_ROUTING": "1",
    "NCCL_IB_MERGE_NICS": "0",
    "NCCL_CROSS_NIC": "1",
    "NCCL_P2P_LEVEL": "SYS",
    "NCCL_SKIP_TREE_CONNECT": "1",
}
"""For such a library, which refuses merged adapters: alexellis/switchless-nccl 0.0.1 (NCCL 2.30.7) and
MiaAI-Lab/DeepSeek-v4.1-Flash-DGX-Sparks#3."""
SHARED: Final = {"NCCL_IB_MERGE_NICS": "1"}
"""Both halves of a port count as one adapter."""


def settings_of(fabric: Fabric, host: str, address: str | None = None, *, patched: bool = False) -> dict[str, str]:
    """The variables of a host; none of what is not known. ``address`` replaces the one that was found.

    ``patched``: its NCCL is one of those that connect nothing but a ring.
    """
    found = {**_sockets(fabric, host), **_roce(fabric, host, patched=patched)}
    return {**found, **dict.fromkeys(ADDRESSES, address)} if address else found


def _sockets(fabric: Fabric, host: str) -> dict[str, str]:
    socket = fabric.sockets.get(host)
    if socket is None:
        return {}
    interfaces = dict.fromkeys((*INTERFACES, OMPI), socket.netdev)
    return {**dict.fromkeys(ADDRESSES, str(socket.address)), "NCCL_SOCKET_IFNAME": f"={socket.netdev}", **interfaces}


def _roce(fabric: Fabric, host: str, *, patched: bool) -> dict[str, str]:
    """Which network NCCL uses, and no other: where that does not work it fails, and does not become slow in silence."""
    if fabric.kind in ("gaps", "lan", "none"):
        return {"NCCL_NET": "Socket"} if fabric.sockets else {}
    devices = ",".join(rail.hca.name for rail in fabric.rails[host])
    more: Mapping[str, str] = {"mesh": MESH, "ring": PATCHED_RING if patched else RING}.get(fabric.kind, SHARED)
    found = {"NCCL_NET": "IB", "NCCL_IB_DISABLE": "0", "NCCL_IB_HCA": f"={devices}", **more}
    if fabric.kind in ("mesh", "ring"):
        lengths = {rail.address.network.prefixlen for rail in fabric.rails[host]}
        if lengths != {24}:  # what NCCL compares without the variable
            found["NCCL_IB_SUBNET_PREFIX_LEN"] = str(max(lengths))
    return found
