"""What NCCL and its relatives must know of a node's network, as variables of its container. Pure.

Interfaces and devices have other names on each machine, so each host gets its own values. The index of a GID is in
none of them: it moves when a link goes down, and NCCL finds the right one itself since 2.21.
"""

from collections.abc import Mapping
from typing import Final

from gb10.serving.cluster.fabric import Fabric

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
