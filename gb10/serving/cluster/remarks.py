"""What is wrong, or slow, with machines as one: a list for people, each remark with what to do. Pure.

Evidence is in docs/cluster.md. What was not read makes no remark.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Final, Literal

from gb10.serving.cluster.fabric import WORDS, Fabric
from gb10.serving.cluster.node_facts import NodeFacts, Reading

Level = Literal["error", "warning", "note"]
SKEW: Final = 2.0
"""Seconds between two clocks that matter: by them gb10 tells which rank ended first."""
ADDRESS: Final = "give it an IPv4 address that survives a reboot, by netplan: docs/cluster.md"


@dataclass(frozen=True, kw_only=True, slots=True)
class Remark:
    """One thing. With an error the machines cannot serve one model together."""

    level: Level
    text: str
    hint: str | None = None


def remarks_on(readings: Mapping[str, Reading], fabric: Fabric) -> tuple[Remark, ...]:
    """All that is to be said of the machines and what joins them, errors first."""
    hosts = {host: reading.facts for host, reading in readings.items()}
    found = [*_twice(hosts), *_different(hosts), *_joined(hosts, fabric), *_clocks(readings)]
    order = ("error", "warning", "note")
    return tuple(sorted(found, key=lambda remark: order.index(remark.level)))


def _twice(hosts: Mapping[str, NodeFacts]) -> Iterator[Remark]:
    adapters = {
        host: {dev.mac for dev in facts.netdevs.values() if dev.mac and dev.pci} for host, facts in hosts.items()
    }
    for one, other in combinations(hosts, 2):
        if adapters[one] & adapters[other]:
            yield Remark(level="error", text=f"{one} and {other} are one machine", hint="name each machine once")


def _different(hosts: Mapping[str, NodeFacts]) -> Iterator[Remark]:
    machines = {host: facts.machine for host, facts in hosts.items() if facts.machine}
    if len(set(machines.values())) > 1:
        hint = "an image runs on one of them: leave the others out"
        yield Remark(level="error", text=f"the nodes have different processors: {_listed(machines)}", hint=hint)
    drivers = {host: facts.driver or "none found" for host, facts in hosts.items()}
    if len(set(drivers.values())) > 1:
        hint = "install the same one everywhere"
        yield Remark(level="error", text=f"the nodes have different NVIDIA drivers: {_listed(drivers)}", hint=hint)


def _listed(values: Mapping[str, str]) -> str:
    return ", ".join(f"{host} {value}" for host, value in values.items())


def _joined(hosts: Mapping[str, NodeFacts], fabric: Fabric) -> Iterator[Remark]:
    if len(hosts) > 1 and not fabric.sockets:
        text = "no network joins all nodes: their IPv4 addresses have no network in common"
        yield Remark(level="error", text=text, hint="connect them to one network; ip -4 address shows their addresses")
    if fabric.gaps and fabric.kind == "gaps":
        pairs = ", ".join(f"{one} and {other}" for one, other in fabric.gaps)
        text = f"no RoCE between {pairs}: NCCL uses the slow network for all"
        yield Remark(level="warning", text=text, hint="connect each pair, which works for 3 nodes, or use a switch")
    idle = [host for host, facts in hosts.items() if any(hca.active and hca.ethernet for hca in facts.hcas)]
    if fabric.kind in ("lan", "none") and idle and len(hosts) > 1:
        text = f"the ConnectX ports of {', '.join(idle)} are up and join no nodes: {WORDS[fabric.kind]}"
        yield Remark(level="warning", text=text, hint=ADDRESS)


def _clocks(readings: Mapping[str, Reading]) -> Iterator[Remark]:
    for host, reading in readings.items():
        if abs(reading.skew) - reading.within > SKEW:
            way = "ahead of" if reading.skew > 0 else "behind"
            text = f"the clock of {host} is {abs(reading.skew):.1f} s {way} this machine's"
            yield Remark(level="warning", text=text, hint="set it by NTP: timedatectl set-ntp true")
