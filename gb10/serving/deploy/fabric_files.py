"""The fast link in Kubernetes: addresses by netplan, a network for each virtual function, NCCL's settings. Pure.

A virtual function has one address for each node, on the host as in the pod: RoCE's GID is made of it. One owner of four
Sparks ran it so (vroomfondel/dgxarley at 9db57fa, nccl-transport-test-plan.md); nobody published that they may differ.
"""

import json
import re
from collections.abc import Mapping
from typing import Final

from gb10.core.ssh import HERE
from gb10.errors import UsageError
from gb10.serving.deploy.deployment import Deployment, Fabric, File
from gb10.serving.deploy.text import yaml_text
from gb10.serving.run.service import Rank
from gb10.serving.run.service_nodes import Node

RAIL: Final = re.compile(r"en(?P<place>[A-Za-z0-9]{1,12}?)(?:np\d+)?")
SUBNET: Final = "192.168.{}."
FIRST: Final = 177
"""Rail N is 192.168.(177 + N).0/24, and the last number of rank R is R + 1."""
MTU: Final = 9000
RDMA: Final = ("/dev/infiniband",)
NETWORKS: Final = "k8s.v1.cni.cncf.io/networks"
CNI_FOLDER: Final = "/etc/cni/multus/net.d"
"""Multus' ``confDir``, by default."""


def check_rails(rails: tuple[str, ...]) -> None:
    """Raise UsageError for a name that is no network interface of a Spark's fast port."""
    for name in rails:
        if RAIL.fullmatch(name) is None or rails.count(name) > 1:
            hint = "ip -br link lists them, rdma link shows which are of RDMA: --rails enp1s0f0np0,enP2p1s0f0np0"
            raise UsageError(f"{name!r} is no interface of the fast link, or is named twice", hint=hint)


def function_of(rail: str) -> str:
    """The first virtual function of an interface, as udev names it: ``enp1s0f0np0`` to ``enp1s0f0v0``."""
    return f"en{_place(rail)}v0"


def _place(rail: str) -> str:
    found = RAIL.fullmatch(rail)
    return found["place"] if found else rail


def settings_of(fabric: Fabric) -> dict[str, str]:
    """What NCCL and Gloo of a pod must know: where they meet, which RDMA devices they take, and no other network.

    Without NCCL_NET, NCCL takes sockets where RDMA does not work, and says so in a log alone.
    """
    devices = [f"roce{_place(rail)}{'v0' if fabric.own_network else ''}" for rail in fabric.rails]
    meet = "eth0" if fabric.own_network else fabric.rails[0]
    return {
        "NCCL_SOCKET_IFNAME": meet,
        "GLOO_SOCKET_IFNAME": meet,
        "NCCL_NET": "IB",
        "NCCL_IB_DISABLE": "0",
        "NCCL_IB_HCA": f"={','.join(devices)}",
        "NCCL_IB_MERGE_NICS": "1",
    }


def pod_nodes(name: str, hosts: tuple[str, ...], fabric: Fabric) -> tuple[Node, ...]:
    """The nodes of a service whose ranks are pods of the LeaderWorkerSet ``name``: its pods' names are known before."""
    if len(hosts) < 2:
        return tuple(Node(host=host, address=f"{name}-api") for host in hosts or (HERE,))
    environment = settings_of(fabric)
    pods = (f"{name}-0{f'-{number}' if number else ''}.{name}" for number in range(len(hosts)))
    return tuple(
        Node(host=host, address=pod, environment=environment, devices=RDMA)
        for host, pod in zip(hosts, pods, strict=True)
    )


def networks(name: str, fabric: Fabric) -> tuple[dict[str, object], ...]:
    """A NetworkAttachmentDefinition for each virtual function.

    It has no configuration: Multus then reads the file of its name on the pod's node, which has the node's address.
    """
    return tuple(
        {"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition", "metadata": {"name": network}}
        for network in _networks(name, fabric)
    )


def _networks(name: str, fabric: Fabric) -> tuple[str, ...]:
    return tuple(f"{name}-rail-{number}" for number in range(len(fabric.rails)))


def attached(name: str, fabric: Fabric) -> str:
    """The networks of a pod, as Multus reads them."""
    return ",".join(_networks(name, fabric))


def network_files(deployment: Deployment, name: str) -> tuple[File, ...]:
    """What Multus reads on each node: a file for each network of ``name``, with that node's address."""
    return tuple(
        File(
            name=f"{options.name}.rail-{number}.cni.conf",
            host=rank.node.host,
            text=_network(network, rail, _address(rank, number)),
        )
        for rank, options in deployment.ranks
        for number, (network, rail) in enumerate(
            zip(_networks(name, deployment.fabric), deployment.fabric.rails, strict=True)
        )
    )


def _network(network: str, rail: str, address: str) -> str:
    ipam = {"type": "static", "addresses": [{"address": address}]}
    config = {"cniVersion": "1.0.0", "name": network, "type": "host-device", "device": function_of(rail), "ipam": ipam}
    return json.dumps(config, indent=2) + "\n"


def _address(rank: Rank, rail: int) -> str:
    """The address of a rank's node on a rail: the interface's, or its virtual function's."""
    return f"{SUBNET.format(FIRST + rail)}{rank.number + 1}/24"


def netplan_files(deployment: Deployment) -> tuple[File, ...]:
    """Addresses of the fast link of each node: without an address an interface has no GID that RoCE can use."""
    return tuple(
        File(name=f"{options.name}.netplan.yaml", host=rank.node.host, text=_netplan(deployment, rank, options.name))
        for rank, options in deployment.ranks
    )


def _netplan(deployment: Deployment, rank: Rank, name: str) -> str:
    found: dict[str, object] = {}
    for number, rail in enumerate(deployment.fabric.rails):
        found |= _interfaces(rail, _address(rank, number), deployment.fabric)
    head = (
        deployment.title(rank),
        "On that node, if no other file there has these interfaces:",
        f"sudo install -m 600 {name}.netplan.yaml /etc/netplan/60-gb10.yaml && sudo netplan apply",
        *((f"sudo install -D -m 644 -t {CNI_FOLDER} {name}.rail-*.cni.conf",) if deployment.fabric.own_network else ()),
    )
    return yaml_text({"network": {"version": 2, "ethernets": found}}, head=head)


def _interfaces(rail: str, address: str, fabric: Fabric) -> Mapping[str, object]:
    own = {"dhcp4": False, "dhcp6": False, "optional": True, "mtu": MTU}
    if not fabric.own_network:
        return {rail: {**own, "addresses": [address]}}
    function = {"link": rail, **own, "addresses": [address]}
    return {rail: {**own, "virtual-function-count": 1}, function_of(rail): function}
