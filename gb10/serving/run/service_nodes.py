"""Nodes of a service: named, or of a cluster's file; where Docker is reached, what each shows, what joins them."""

import difflib
import socket
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gb10.containers.connection import Engine, engine_host
from gb10.containers.node import reached
from gb10.containers.reach import connect_if_running
from gb10.core.config import config_file
from gb10.core.host import Host
from gb10.core.proc import CommandFailedError, capture
from gb10.core.reporter import Reporter
from gb10.core.ssh import HERE, ssh_host
from gb10.errors import Gb10Error, ServeError, UsageError
from gb10.serving.cluster.adapters import Remark, adapter_remarks, pair_remarks, remarks_on
from gb10.serving.cluster.cluster_file import LARGEST, NAME, Cluster, read_cluster
from gb10.serving.cluster.fabric import PATCHED, Fabric, fabric_of, settings_of
from gb10.serving.cluster.node_facts import NodeFacts, Reading
from gb10.serving.cluster.probing import read_nodes
from gb10.serving.run.fleet import unreached

LOOPBACK = "127.0.0.1"
SOCKET = "unix://"
SOCKETS = (SOCKET, "tcp://", "http://")
"""How an engine is named that ssh does not reach."""
MARK = "@"
"""Before the name of a cluster."""
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


def cluster_file(env: Mapping[str, str], name: str) -> Path:
    """Where a cluster's file lies. Raises UsageError for what cannot be a name."""
    if NAME.fullmatch(name) is None:
        raise UsageError(f"{name!r} cannot be the name of a cluster", hint="use letters, digits, _, . and -")
    return _folder(env) / f"{name}.toml"


def _folder(env: Mapping[str, str]) -> Path:
    return config_file(env).parent / "clusters"


def find_cluster(env: Mapping[str, str], name: str) -> Cluster:
    """A cluster by its name. Raises UsageError with the closest one, or for a file with mistakes."""
    path = cluster_file(env, name)
    try:
        with path.open("rb") as stream:
            content = stream.read(LARGEST + 1)
        return read_cluster(content[:LARGEST].decode("utf-8"), str(path))
    except FileNotFoundError as error:
        names = sorted(one.stem for one in _folder(env).glob("*.toml"))
        close = difflib.get_close_matches(name, names, n=1, cutoff=0.4)
        guess = f"did you mean {MARK}{close[0]}? " if close else ""
        hint = f"{guess}make it: ./build.py cluster init {name} --nodes HEAD,WORKER"
        raise UsageError(f"no cluster {name!r}", where=str(path), hint=hint) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text", hint="save it as UTF-8") from error
    except OSError as error:
        raise UsageError(f"cannot read {path}", where=error.strerror or str(error)) from error


def parse_nodes(env: Mapping[str, str], text: str | None) -> Cluster | None:
    """The nodes of ``--nodes A,B`` or ``--nodes @NAME``; None when it is not given. Raises UsageError."""
    if text is None:
        return None
    if text.startswith(MARK) and "," not in text:
        return find_cluster(env, text.removeprefix(MARK))
    hosts = tuple(one.strip() for one in text.split(",") if one.strip())
    if not hosts:
        raise UsageError("--nodes names no node", hint="write --nodes HEAD,WORKER, or --nodes @CLUSTER")
    refuse_numbers(hosts)
    twice = next((host for host in hosts if hosts.count(host) > 1), None)
    if twice:
        raise UsageError(f"the node {twice!r} is named twice", hint="each node runs one rank")
    return alone(*hosts)


def alone(*hosts: str) -> Cluster:
    """A cluster without a file."""
    return Cluster.model_construct(nodes=hosts, environment={}, node={})


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineView:
    """An engine that answered. ``nvidia``: it has NVIDIA's runtime by name; without, `--gpus` may still work."""

    version: str
    nvidia: bool


def engine_views(host: Host, names: Sequence[str]) -> dict[str, EngineView | Gb10Error | None]:
    """The engine of each machine; None where none runs on this one."""

    def one(name: str) -> EngineView | Gb10Error | None:
        try:
            if name == HERE:
                found = connect_if_running(host.env, host.store)
                return _view(found) if found else None
            with reached(name) as engine:
                return _view(engine)
        except Gb10Error as error:
            return error

    with ThreadPoolExecutor(max(1, len(names))) as pool:
        return dict(zip(names, pool.map(one, names), strict=True))


def _view(engine: Engine) -> EngineView:
    return EngineView(version=engine.version, nvidia="nvidia" in engine_host(engine).runtimes)


GPUS = "docker run --gpus needs NVIDIA's container toolkit: sudo nvidia-ctk runtime configure --runtime=docker"


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeSurvey:
    """What is known. ``failed`` are machines that could not be read; ``engines`` lacks those without an engine."""

    readings: Mapping[str, Reading]
    engines: Mapping[str, EngineView]
    fabric: Fabric
    remarks: tuple[Remark, ...]
    failed: Mapping[str, Gb10Error]

    def require(self) -> None:
        """Raise EngineError for machines that cannot be read, ServeError when they cannot serve one model together."""
        if self.failed:
            raise unreached(self.failed)
        errors = [remark for remark in self.remarks if remark.level == "error"]
        if errors:
            where = "\n".join(remark.text for remark in errors[1:])
            raise ServeError(errors[0].text, where=where or None, hint=errors[0].hint)


def survey_nodes(host: Host, hosts: Sequence[str]) -> NodeSurvey:
    """All that is known of machines; facts and engines are asked at the same time."""
    with ThreadPoolExecutor(2) as pool:
        facts, engines = pool.submit(read_nodes, hosts), pool.submit(engine_views, host, hosts)
    return _judged(facts.result(), engines.result())


def _judged(
    found: Mapping[str, Reading | Gb10Error], engines: Mapping[str, EngineView | Gb10Error | None]
) -> NodeSurvey:
    readings = {host: reading for host, reading in found.items() if isinstance(reading, Reading)}
    views = {host: view for host, view in engines.items() if isinstance(view, EngineView)}
    failed = {host: error for host, error in [*engines.items(), *found.items()] if isinstance(error, Gb10Error)}
    fabric = fabric_of({host: reading.facts for host, reading in readings.items()})
    remarks = [*remarks_on(readings, fabric), *pair_remarks(fabric)]
    remarks += [remark for host, reading in readings.items() for remark in adapter_remarks(host, reading.facts)]
    for host, view in views.items():
        if host in readings and readings[host].facts.gpus and not view.nvidia:
            remarks.append(Remark(level="note", text=f"{host}: Docker names no NVIDIA runtime", hint=GPUS))
    remarks.sort(key=lambda remark: ("error", "warning", "note").index(remark.level))
    return NodeSurvey(readings=readings, engines=views, fabric=fabric, remarks=tuple(remarks), failed=failed)


RDMA: Final = "/dev/infiniband"


def nodes_by_name(cluster: Cluster) -> tuple[Node, ...]:
    """The nodes of a cluster by what a person says of them; none is asked."""
    return tuple(_node(cluster, host) for host in cluster.nodes)


def with_network(reporter: Reporter, cluster: Cluster, *, patched: bool = False) -> tuple[Node, ...]:
    """The nodes with what their network needs; ``patched``: their NCCL is one for rings alone.

    Raises EngineError for one that cannot be read, ServeError.
    """
    hosts = cluster.nodes
    if len(hosts) == 1:
        return nodes_by_name(cluster)
    dark = [host for host in hosts if host.startswith(SOCKETS)]
    if dark:
        reporter.say(f"{', '.join(dark)}: not named by ssh, so its network is not read, and NCCL is told nothing of it")
        return nodes_by_name(cluster)
    survey = _judged(read_nodes(hosts), {})
    survey.require()
    for remark in survey.remarks:
        if remark.level == "warning":
            reporter.say(f"warning: {remark.text}")
    facts, fabric = {host: survey.readings[host].facts for host in hosts}, survey.fabric
    return tuple(_node(cluster, host, facts[host], fabric, patched=patched) for host in hosts)


def _node(
    cluster: Cluster,
    host: str,
    facts: NodeFacts | None = None,
    fabric: Fabric | None = None,
    *,
    patched: bool = False,
) -> Node:
    own, client = cluster.own(host), client_address(host)
    found = fabric.sockets.get(host) if fabric else None
    patched = patched or PATCHED in {**cluster.environment, **own.environment}
    return Node(
        host=host,
        address=own.address or (str(found.address) if found else address_of(host)),
        client=client,
        environment=settings_of(fabric, host, own.address, patched=patched) if fabric else {},
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
