"""Whether ports are free, before minutes of loading end in "address in use"."""

import re
import socket
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gb10.core.reporter import Reporter
from gb10.core.ssh import HERE
from gb10.errors import Gb10Error, UsageError
from gb10.serving.cluster.probing import each_machine, not_whole, script_output
from gb10.serving.run.service import Service
from gb10.serving.run.service_nodes import SOCKET, SOCKETS

if TYPE_CHECKING:
    from gb10.serving.run.existing import Found

PATIENCE: Final = 3.0
STEPS: Final = 100
"""Ports that are tried for a meeting."""
TCP: Final = tuple(scheme for scheme in SOCKETS if scheme != SOCKET)
"""How an engine is named whose machine is known by its address alone."""
SCRIPT: Final = Path(__file__).with_name("ports.sh")
PORTS: Final = re.compile(r"^[0-9A-F]{4}$", re.MULTILINE)


def check_port(service: Service, found: "Iterable[Found]") -> None:
    """Raise UsageError when a program listens where the service shall. Another service is named."""
    address = service.ranks[0].node.client or service.ranks[0].node.address
    if not listens(address, service.port):
        return
    holder = next((one.labels.service for one in found if one.labels.endpoint == service.endpoint), None)
    raise UsageError(
        f"port {service.port} of {address} is taken" + (f" by the service {holder}" if holder else ""),
        hint=f"stop it (./build.py stop {holder}), or choose another port: --set port=N" if holder else "--set port=N",
    )


def listens(address: str, port: int) -> bool:
    """Whether a TCP connection is accepted there."""
    try:
        with socket.create_connection((address, port), timeout=PATIENCE):
            return True
    except OSError:
        return False


def on_free_ports(reporter: Reporter, service: Service, moved: Callable[[int], Service]) -> Service:
    """The service with ports that are free for its ranks to meet; ``moved`` gives it with ports so many steps on.

    Other ports than its own are said. A node whose ports cannot be read is said, too. Raises UsageError.
    """
    if not service.meeting:
        return service
    taken = _taken(reporter, service)
    for step in range(STEPS):
        candidate = moved(step) if step else service
        if service.port not in candidate.meeting and not any(taken(port) for port in candidate.meeting):
            if step:
                reporter.say(f"{_why(service, taken)}, so the ranks meet at {_listed(candidate.meeting)}")
            return candidate
    raise UsageError(
        f"no port is free for the ranks of {service.name} to meet",
        where=f"{STEPS} ports from {_listed(service.meeting)} on are taken",
        hint="choose another port for its API: --set port=N",
    )


def _why(service: Service, taken: Callable[[int], str]) -> str:
    holders = [f"port {port} is taken on {host}" for port in service.meeting if (host := taken(port))]
    return ", ".join(holders) or f"port {service.port} is the API's"


def _listed(ports: Iterable[int]) -> str:
    return ", ".join(map(str, ports))


def _taken(reporter: Reporter, service: Service) -> Callable[[int], str]:
    """What gives the node on which a port is taken; empty for a free one."""
    by_address = {rank.node.host: rank.node.address for rank in service.ranks if rank.node.host.startswith(TCP)}
    hosts = [HERE if host.startswith(SOCKET) else host for host in service.hosts if host not in by_address]
    read: dict[str, frozenset[int]] = {}
    for host, found in each_machine(list(dict.fromkeys(hosts)), ports_of).items():
        if isinstance(found, Gb10Error):
            reason = " ".join((found.where or found.message).split())[:200]
            reporter.say(f"{host}: not looked at whether port {_listed(service.meeting)} is free there: {reason}")
        else:
            read[host] = found

    def holder(port: int) -> str:
        listening = (host for host, ports in read.items() if port in ports)
        answering = (host for host, address in by_address.items() if listens(address, port))
        return next(listening, "") or next(answering, "")

    return holder


def ports_of(host: str) -> frozenset[int]:
    """The ports that sockets of a machine have now. Raises EngineError, UsageError."""
    text = script_output(host, SCRIPT)
    if not text.endswith("end\n"):
        raise not_whole(host, text)
    return frozenset(int(port, 16) for port in PORTS.findall(text))
