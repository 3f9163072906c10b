"""Whether a port is free, before minutes of loading end in "address in use"."""

import socket
from collections.abc import Iterable

from gb10.errors import UsageError
from gb10.serve.existing import Found
from gb10.serve.service import Service

PATIENCE = 3.0


def check_port(service: Service, found: Iterable[Found]) -> None:
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
