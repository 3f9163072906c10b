"""Where a running service is asked: on the node where its container was found, whatever its labels name.

Of a label only the port counts; its host is taken where it is an address of that very machine.
"""

import re
import socket
from ipaddress import ip_address
from typing import Final

from gb10.core.ssh import HERE
from gb10.serving.run.service_nodes import LOOPBACK, SOCKET, client_address

URL: Final = re.compile(r"http://(?P<host>[A-Za-z0-9._-]{1,253}|\[[0-9a-fA-F:.]{2,45}\]):(?P<port>[0-9]{1,5})")
LAST: Final = 65535


def url_on(node: str, label: str) -> str | None:
    """The URL of the service on a node whose container has this label; None where the label has no port."""
    found = URL.fullmatch(label)
    if found is None or not 0 < int(found["port"]) <= LAST:
        return None
    host = found["host"].strip("[]")
    here = node == HERE or node.startswith(SOCKET)
    address = host if here and is_own(host) else LOOPBACK if here else client_address(node)
    return f"http://{f'[{address}]' if ':' in address else address}:{found['port']}"


def is_this_machine(url: str) -> bool:
    """Whether a URL of ``url_on`` leads to this machine and nowhere else: what is sent there passes no network."""
    found = URL.fullmatch(url)
    return found is not None and is_own(found["host"].strip("[]"))


def is_own(host: str) -> bool:
    """Whether a host is this machine: its loopback, its name, or an address that a socket can be bound to here.

    No name is looked up for that: a label could have chosen it.
    """
    if host == HERE:
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return host == socket.gethostname()
    if address.is_unspecified or address.is_multicast:
        return False
    try:
        with socket.socket(socket.AF_INET6 if address.version == 6 else socket.AF_INET) as probing:
            probing.bind((str(address), 0))
    except OSError:
        return False
    return True
