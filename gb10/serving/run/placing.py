"""The nodes of a service: read at the same time, judged together, each with what its container must know."""

import socket
from typing import Final

from gb10.core.proc import CommandFailedError, capture
from gb10.core.reporter import Reporter
from gb10.core.ssh import HERE, ssh_host
from gb10.serving.cluster.cluster_file import Cluster
from gb10.serving.cluster.fabric import Fabric
from gb10.serving.cluster.nccl import settings_of
from gb10.serving.cluster.node_facts import NodeFacts
from gb10.serving.run.members import SOCKETS, Node, address_of
from gb10.serving.run.survey_nodes import survey_network

RDMA: Final = "/dev/infiniband"


def named(cluster: Cluster) -> tuple[Node, ...]:
    """The nodes of a cluster by what a person says of them; none is asked."""
    return tuple(_node(cluster, host) for host in cluster.nodes)


def placed(reporter: Reporter, cluster: Cluster) -> tuple[Node, ...]:
    """The nodes with what their network needs. Raises EngineError for one that cannot be read, ServeError."""
    hosts = cluster.nodes
    if len(hosts) == 1:
        return named(cluster)
    dark = [host for host in hosts if host.startswith(SOCKETS)]
    if dark:
        reporter.say(f"{', '.join(dark)}: not named by ssh, so its network is not read, and NCCL is told nothing of it")
        return named(cluster)
    survey = survey_network(hosts)
    survey.require()
    for remark in survey.remarks:
        if remark.level == "warning":
            reporter.say(f"warning: {remark.text}")
    return tuple(_node(cluster, host, survey.readings[host].facts, survey.fabric) for host in hosts)


def _node(cluster: Cluster, host: str, facts: NodeFacts | None = None, fabric: Fabric | None = None) -> Node:
    own, client = cluster.own(host), client_address(host)
    found = fabric.sockets.get(host) if fabric else None
    return Node(
        host=host,
        address=own.address or (str(found.address) if found else address_of(host)),
        client=client,
        environment=settings_of(fabric, host, own.address) if fabric else {},
        own={**cluster.environment, **own.environment},
        devices=(RDMA,) if facts and facts.rdma_devices and fabric and fabric.rails.get(host) else (),
    )


def client_address(host: str) -> str:
    """What a client connects to: the name, if it is one of a machine, else what ssh's own configuration makes of it."""
    name, found = address_of(host), ssh_host(host)
    if host == HERE or host.startswith(SOCKETS) or found is None or _resolves(name):
        return name
    try:
        lines = capture(["ssh", "-G", found.name]).splitlines()
    except CommandFailedError:
        return name
    return next((line.split()[1] for line in lines if line.startswith("hostname ")), name)


def _resolves(name: str) -> bool:
    try:
        return bool(socket.getaddrinfo(name, None))
    except OSError:
        return False
