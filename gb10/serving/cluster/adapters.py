"""The ports of a machine's ConnectX adapters: each is two PCIe functions, two interfaces and two RDMA devices. Pure."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final, Literal

from gb10.serving.cluster.cabling import TRIANGLE, follows, missing_cables
from gb10.serving.cluster.fabric import WORDS, Fabric, Rail, rails_of
from gb10.serving.cluster.node_facts import Hca, Netdev, NodeFacts, Pcie, Reading

Level = Literal["error", "warning", "note"]
SKEW: Final = 2.0
"""Seconds between two clocks that matter: by them gb10 tells which rank ended first."""
COST: Final = "some 2 GB/s where RoCE moved 9.8"
"""vroomfondel/dgxarley, four Sparks: docs/cluster.md."""
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
    if fabric.kind == "gaps":
        text = f"no RoCE between {_pairs(fabric.gaps)}: NCCL uses the slow network for all ({COST})"
        yield Remark(level="warning", text=text, hint=_whole(hosts, fabric))
    if fabric.kind == "ring":
        if not follows(tuple(hosts), fabric.order):
            text = "the order of the nodes does not follow the cables of their ring, so neighbours in NCCL have no way"
            yield Remark(level="error", text=text, hint=f"name them so: --nodes {','.join(fabric.order)}")
        works = "NCCL's rings work; all-to-all (expert parallelism) and stages do not"
        text = f"a ring: no way between {_pairs(fabric.gaps)}. {works}"
        yield Remark(level="note", text=text, hint="which NCCL does what in a ring: docs/cluster.md")
    yield from _crossed(hosts, fabric)
    idle = [host for host, facts in hosts.items() if any(hca.active and hca.ethernet for hca in facts.hcas)]
    if fabric.kind in ("lan", "none") and idle and len(hosts) > 1:
        text = f"the ConnectX ports of {', '.join(idle)} are up and join no nodes: {WORDS[fabric.kind]}"
        yield Remark(level="warning", text=text, hint=ADDRESS)


MOST_PAIRS: Final = 3


def _pairs(gaps: Sequence[tuple[str, str]]) -> str:
    """The first pairs, and how many more."""
    found = [f"{one} and {other}" for one, other in gaps[:MOST_PAIRS]]
    more = len(gaps) - len(found)
    return ", ".join([*found, *([f"{more} more pairs"] if more else [])])


def _whole(hosts: Mapping[str, NodeFacts], fabric: Fabric) -> str:
    """What makes the network whole: cables to plug, or addresses where both ports have a link already."""
    ports = {host: ports_of(facts) for host, facts in hosts.items()}
    lacking = missing_cables(tuple(hosts), fabric.cables, {host: tuple(one) for host, one in ports.items()})
    if not lacking:
        return "a switch joins them all; each of its networks has an address of every node: docs/cluster.md"
    linked = [
        one for one in lacking if all(any(half.netdev.carrier for half in ports[host][port]) for host, port in one.ends)
    ]
    shape = "a triangle" if len(hosts) == TRIANGLE else "a ring"
    plugs = "; ".join(str(one) for one in lacking if one not in linked)
    ways = [f"for {shape} plug: {plugs}; each cable gets a network of its own"] if plugs else []
    ways += [
        f"if a cable is in {one}, give its ends one network: they have "
        + " and ".join(f"{_addresses(ports[host][port])} ({host})" for host, port in one.ends)
        for one in linked
    ]
    return f"{'; '.join(ways)}: docs/cluster.md"


def _addresses(halves: Sequence["Half"]) -> str:
    """The addresses of a port with a link."""
    found = ", ".join(str(one) for half in halves if half.netdev.carrier for one in half.netdev.addresses)
    return found or "no address"


def _crossed(hosts: Mapping[str, NodeFacts], fabric: Fabric) -> Iterator[Remark]:
    """Cables that lead to another port than their addresses say, by the adapters that answered there.

    Linux answers for each of its addresses at any port (arp_ignore 0), so IP gets through, and RoCE does not. So it
    does where both ports are on one switch: a port that hears two others is there, and no cable is known.
    """
    names = {
        host: {half.netdev.name: port for port, one in ports_of(facts).items() for half in one}
        for host, facts in hosts.items()
    }
    macs = {
        dev.mac: (host, names[host][dev.name])
        for host, facts in hosts.items()
        for dev in facts.netdevs.values()
        if dev.mac and dev.name in names[host]
    }
    owners = {
        rail.address.ip: (host, names[host].get(rail.netdev.name))
        for host, rails in fabric.rails.items()
        for rail in rails
    }
    heard: dict[tuple[str, str], set[tuple[str, str]]] = defaultdict(set)
    for host, facts in hosts.items():
        for one in facts.neighbors:
            if one.netdev in names[host] and one.mac in macs:
                heard[host, names[host][one.netdev]].add(macs[one.mac])
    cabled = {frozenset(cable.ends) for cable in fabric.cables}
    found = dict.fromkeys(
        f"{host} {names[host][one.netdev]} leads to {' '.join(there)}, not {wanted[1]}"
        for host, facts in hosts.items()
        for one in facts.neighbors
        if one.netdev in names[host] and (wanted := owners.get(one.address)) and (there := macs.get(one.mac))
        if there != wanted and there[0] == wanted[0] and len(heard[host, names[host][one.netdev]]) == 1
        if frozenset(((host, names[host][one.netdev]), wanted)) in cabled
    )
    if found:
        yield Remark(
            level="warning",
            text=f"cables are in other ports than their addresses say, and RoCE fails there: {'; '.join(found)}; or a "
            "switch joins the ports",
            hint="swap the two cables of that node, or the addresses of its two ports by netplan. The nodes' ARP "
            "tables show it; old entries go by: ip neigh flush all. At a switch it means nothing",
        )


def _clocks(readings: Mapping[str, Reading]) -> Iterator[Remark]:
    for host, reading in readings.items():
        if abs(reading.skew) - reading.within > SKEW:
            way = "ahead of" if reading.skew > 0 else "behind"
            text = f"the clock of {host} is {abs(reading.skew):.1f} s {way} this machine's"
            yield Remark(level="warning", text=text, hint="set it by NTP: timedatectl set-ntp true")


DRIVER: Final = "mlx5_core"
JUMBO: Final = 9000
LANES, TRANSFERS, MEGABITS = 4, 32.0, 200_000
"""Of a half of a port of a Spark: PCIe lanes, gigatransfers a second, and the rate of the link."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Half:
    """One PCIe function of a port."""

    netdev: Netdev
    hca: Hca | None
    pcie: Pcie | None
    rails: tuple[Rail, ...]


Ports = Mapping[str, tuple[Half, ...]]
"""The halves of each port, by the port's name on the adapter."""


def ports_of(facts: NodeFacts) -> Ports:
    """The ports of a machine's ConnectX adapters; virtual functions are none."""
    rails, found = rails_of(facts), defaultdict[str, list[Half]](list)
    for netdev in sorted(facts.netdevs.values(), key=lambda one: (one.pci or "", one.name)):
        if netdev.driver == DRIVER and netdev.pci and not netdev.virtual:
            hca = next((hca for hca in facts.hcas if hca.pci == netdev.pci), None)
            own = tuple(rail for rail in rails if rail.netdev.name in (netdev.name, netdev.master))
            half = Half(netdev=netdev, hca=hca, pcie=facts.pcie.get(netdev.pci), rails=own)
            found[netdev.port or f"f{netdev.pci.rpartition('.')[2]}"].append(half)
    return {name: tuple(halves) for name, halves in found.items()}


def adapter_remarks(host: str, facts: NodeFacts) -> Iterator[Remark]:
    """What keeps the ports of a machine from their speed."""
    for port, halves in ports_of(facts).items():
        if any(half.netdev.carrier for half in halves):
            yield from _port_remarks(host, port, halves)
    networks: dict[str, list[str]] = defaultdict(list)
    for rail in rails_of(facts):
        if not rail.address.is_link_local:
            networks[str(rail.address.network)].append(rail.netdev.name)
    for network, names in networks.items():
        if len(set(names)) > 1:
            text = f"{host}: {', '.join(names)} are in one network, {network}: packets may take the wrong one"
            hint = "give each a network of its own, the same one at the other end of the cable: docs/cluster.md"
            yield Remark(level="warning", text=text, hint=hint)
    if rails_of(facts) and not any(name.startswith("uverbs") for name in facts.rdma_devices):
        text = f"{host}: /dev/infiniband has no device, so containers cannot use RoCE"
        yield Remark(level="warning", text=text, hint="load the module: modprobe ib_uverbs")
    idle = [one.name for one in facts.netdevs.values() if one.virtual and one.carrier and not one.addresses]
    if idle:
        text = f"{host}: virtual functions without an IPv4 address have no RoCE v2 GID: {', '.join(idle)}"
        yield Remark(level="note", text=text, hint=ADDRESS)


def _port_remarks(host: str, port: str, halves: tuple[Half, ...]) -> Iterator[Remark]:
    idle = [half.netdev.name for half in halves if half.netdev.carrier and not half.rails]
    down = [half.netdev.name for half in halves if half.netdev.carrier is False]
    if down:
        text = f"{host}: half of the port {port} is down: {', '.join(down)}"
        yield Remark(level="warning", text=text, hint=f"ip link set {down[0]} up; netplan keeps it so: docs/cluster.md")
    if idle:
        share = "the port" if len(idle) == len(halves) else "half of the port"
        text = f"{host}: {', '.join(idle)} has a link and no IPv4 address, so {share} {port} is not used"
        yield Remark(level="warning", text=text, hint=ADDRESS)
    for half in halves:
        yield from _half_remarks(host, half)


def _half_remarks(host: str, half: Half) -> Iterator[Remark]:
    netdev, pcie = half.netdev, half.pcie
    for rail in half.rails:
        if rail.gid is None:
            text = f"{host}: {rail.hca.name} has no RoCE v2 GID for {rail.address.ip}"
            hint = f"take the address off and on again: ip link set {netdev.name} down, then up"
            yield Remark(level="warning", text=text, hint=hint)
    if half.rails and netdev.mtu is not None and netdev.mtu < JUMBO:
        text = f"{host}: {netdev.name} has MTU {netdev.mtu}; {JUMBO} is some 20 % faster"
        yield Remark(level="warning", text=text, hint=f"mtu: {JUMBO} in netplan, on every node and the switch")
    if netdev.carrier and netdev.speed is not None and netdev.speed < MEGABITS:
        text = f"{host}: the link of {netdev.name} runs at {netdev.speed // 1000} Gb/s of 200"
        yield Remark(level="note", text=text, hint="the cable or the switch's port may be one of less")
    if netdev.carrier and pcie and pcie.width is not None and pcie.width < LANES:
        text = f"{host}: {netdev.name} has {pcie.width} PCIe lanes of {LANES}"
        yield Remark(level="warning", text=text, hint="update the firmware: fwupdmgr update; then take the power off")
    if netdev.carrier and pcie and pcie.speed is not None and pcie.speed < TRANSFERS:
        text = f"{host}: the PCIe link of {netdev.name} runs at {pcie.speed:g} GT/s of {TRANSFERS:g}"
        yield Remark(level="warning", text=text, hint="take the power cable out for a minute; a reboot is not enough")


def pair_remarks(fabric: Fabric) -> Iterator[Remark]:
    """Where the two ends of a network do not fit."""
    sizes: dict[str, dict[str, int]] = defaultdict(dict)
    for host, rails in fabric.rails.items():
        for rail in rails:
            if rail.netdev.mtu is not None:
                sizes[str(rail.address.network)][f"{host} {rail.netdev.name}"] = rail.netdev.mtu
    for network, found in sizes.items():
        if len(set(found.values())) > 1:
            listed = ", ".join(f"{name} {size}" for name, size in found.items())
            text = f"the interfaces of {network} have different MTUs: {listed}"
            yield Remark(level="warning", text=text, hint=f"mtu: {JUMBO} in netplan, on every node and the switch")
    counts = {host: len(rails) for host, rails in fabric.rails.items()}
    if len(set(counts.values())) > 1 and fabric.kind != "gaps":  # there a cable is missing, and that is said
        listed = ", ".join(f"{host} {count}" for host, count in counts.items())
        text = f"the nodes use different numbers of RDMA devices: {listed}"
        yield Remark(
            level="warning",
            text=text,
            hint="each half of a port that leads to a node needs an IPv4 address: docs/cluster.md",
        )
