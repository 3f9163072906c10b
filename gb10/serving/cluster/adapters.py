"""The ports of a machine's ConnectX adapters: each is two PCIe functions, two interfaces and two RDMA devices. Pure."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
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
        pairs = ", ".join(f"{one} and {other}" for one, other in fabric.gaps)
        lacking = missing_cables(
            tuple(hosts), fabric.cables, {host: tuple(ports_of(one)) for host, one in hosts.items()}
        )
        shape = "a triangle" if len(hosts) == TRIANGLE else "a ring"
        plug = f"for {shape} plug: {'; '.join(map(str, lacking))}" if lacking else "a switch joins them all"
        text = f"no RoCE between {pairs}: NCCL uses the slow network for all ({COST})"
        yield Remark(level="warning", text=text, hint=f"{plug}; each cable gets a network of its own: docs/cluster.md")
    if fabric.kind == "ring":
        if not follows(tuple(hosts), fabric.order):
            text = "the order of the nodes does not follow the cables of their ring, so neighbours in NCCL have no way"
            yield Remark(level="error", text=text, hint=f"name them so: --nodes {','.join(fabric.order)}")
        pairs = ", ".join(f"{one} and {other}" for one, other in fabric.gaps)
        text = f"a ring: no way between {pairs}. NCCL's rings work; all-to-all (expert parallelism) and stages do not"
        yield Remark(level="note", text=text, hint="which NCCL does what in a ring: docs/cluster.md")
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
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{host} {count}" for host, count in counts.items())
        text = f"the nodes use different numbers of RDMA devices: {listed}"
        yield Remark(level="warning", text=text, hint=ADDRESS)
