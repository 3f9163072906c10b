"""The address of a machine's fast link: what the cluster's file says, else the network of RoCE that both are on."""

from gb10.core.reporter import Reporter
from gb10.core.ssh import HERE
from gb10.errors import PublishError
from gb10.serving.cluster.fabric import fabric_of
from gb10.serving.cluster.node_facts import Reading
from gb10.serving.cluster.probing import read_nodes
from gb10.serving.weights.node_cache import on_node

ROCE = "pair"
"""Two machines on one network of RoCE."""


def fast_address(reporter: Reporter, host: str, named: str | None) -> str | None:
    """The address, if ssh gets in by it; None: copy by the machine's own name. ``named`` is the cluster's."""
    address = named or _found(host)
    if address is None:
        return None
    try:
        on_node(host, "true", address=address)
    except PublishError:
        reporter.say(f"{host}: ssh does not get in by its fast link, {address}: copying by its name")
        return None
    reporter.say(f"{host}: copying over its fast link, {address}")
    return address


def _found(host: str) -> str | None:
    """The machine's address in the network of RoCE that it shares with this one."""
    readings = read_nodes((HERE, host))
    facts = {name: found.facts for name, found in readings.items() if isinstance(found, Reading)}
    if len(facts) < len(readings):
        return None
    fabric = fabric_of(facts)
    rails = fabric.rails.get(host, ()) if fabric.kind == ROCE else ()
    return str(rails[0].address.ip) if rails else None
