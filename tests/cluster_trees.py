"""Machines that are folders: /sys, /proc and /dev of a DGX Spark, and the programs that the probe runs.

Names of interfaces, devices and PCI functions are those of real Sparks; so is the layout of sysfs.
"""

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from ipaddress import IPv4Interface, IPv6Address
from pathlib import Path
from typing import Final

from gb10.serving.cluster.fact_reading import read_facts
from gb10.serving.cluster.node_facts import NodeFacts
from gb10.serving.cluster.probing import SCRIPT, script_text

FUNCTIONS: Final = (
    ("p0", "0000:01:00.0", "enp1s0f0np0", "rocep1s0f0"),
    ("p0", "0002:01:00.0", "enP2p1s0f0np0", "roceP2p1s0f0"),
    ("p1", "0000:01:00.1", "enp1s0f1np1", "rocep1s0f1"),
    ("p1", "0002:01:00.1", "enP2p1s0f1np1", "roceP2p1s0f1"),
)
LAN: Final = "enP7s7"
MEMORY: Final = """\
MemTotal:       127600000 kB
MemFree:          9000000 kB
MemAvailable:   110000000 kB
SwapTotal:              0 kB
CmaTotal:          131072 kB
CmaFree:            90000 kB
"""
CLOCK: Final = "1795558766.650325577"
KERNEL: Final = "6.14.0-1013-nvidia"
DRIVER: Final = "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  {}  Release Build"
RDMA: Final = ("rdma_cm", "uverbs0")
STATES: Final = {True: ("4: ACTIVE", "200 Gb/sec (4X HDR)"), False: ("1: DOWN", "40 Gb/sec (4X QDR)")}
"""State and rate of an RDMA device, by whether its link is up."""


@dataclass(frozen=True, kw_only=True)
class Spark:
    """A machine: ``cables`` has the addresses of the halves of each port with a cable, empty for a half without one."""

    number: int
    cables: Mapping[str, Sequence[str]] = field(default_factory=dict)
    lan: str | None = "192.168.1.{}/24"
    mtu: int = 9000
    machine: str = "aarch64"
    driver: str | None = "580.95.05"
    gid_shift: int = 0
    lanes: Mapping[str, int] = field(default_factory=dict)
    """PCIe lanes by function, where they are not 4."""
    down: frozenset[str] = frozenset()
    """Interfaces without a link, though their port has a cable."""
    virtual: str | None = None
    """A virtual function of the first interface, with or without an address ("")."""
    clock: str = CLOCK
    rdma: bool = True
    neighbors: Sequence[tuple[str, str, str]] = ()
    """Interface, address and adapter of each entry of the ARP table."""


@dataclass(frozen=True, kw_only=True)
class Net:
    """An interface of a machine, and the RDMA device of its function."""

    name: str
    mac: str
    mtu: int = 1500
    up: bool = True
    speed: int | None = None
    port: str | None = None
    pci: str | None = None
    driver: str | None = None
    virtual: bool = False
    address: str = ""
    lanes: int | None = None
    hca: str | None = None
    gids: Mapping[int, tuple[str, str]] = field(default_factory=dict)


def nets_of(spark: Spark) -> list[Net]:
    """All interfaces of a machine."""
    found = [
        Net(name="lo", mac="00:00:00:00:00:00", mtu=65536, address="127.0.0.1/8"),
        Net(name="docker0", mac="02:42:00:00:00:01", address="172.17.0.1/16"),
    ]
    if spark.lan:
        address = spark.lan.format(spark.number)
        found.append(
            Net(name=LAN, mac=_mac(spark, 9), speed=10_000, pci="0007:01:00.0", driver="r8127", address=address)
        )
    fast = {"speed": 200_000, "driver": "mlx5_core", "mtu": spark.mtu}
    for at, (port, pci, name, hca) in enumerate(FUNCTIONS):
        halves = spark.cables.get(port)
        own, up = halves[at % 2] if halves else "", halves is not None and name not in spark.down
        found.append(
            replace(
                Net(name=name, mac=_mac(spark, at), port=port, pci=pci, hca=hca, up=up, address=own),
                **{**fast, "speed": 200_000 if up else None},  # type: ignore[arg-type]
                lanes=spark.lanes.get(pci, 4),
                gids=_gids(at, own, spark.gid_shift),
            )
        )
    if spark.virtual is not None:
        half = Net(name="enp1s0f0v0", mac=_mac(spark, 8), pci="0000:01:00.2", virtual=True, address=spark.virtual)
        found.append(replace(half, **fast))  # type: ignore[arg-type]
    return found


def _gids(at: int, own: str, shift: int) -> dict[int, tuple[str, str]]:
    """GIDs by index: link-local first, then that of the address; each in both versions."""
    local = (IPv6Address("fe80::4abb:2dff:fe00:0") + at).exploded
    mapped = IPv6Address(f"::ffff:{IPv4Interface(own).ip}").exploded if own else ""
    found = {0: (local, "IB/RoCE v1"), 1: (local, "RoCE v2")}
    return found | ({2 + shift: (mapped, "IB/RoCE v1"), 3 + shift: (mapped, "RoCE v2")} if own else {})


def said(spark: Spark) -> str:
    """What the probe says of a machine; `test_cluster.py` compares it with what the real one says of the folder."""
    lines: list[tuple[object, ...]] = [("probe", 1), ("kernel", KERNEL), ("machine", spark.machine)]
    lines += [("clock", spark.clock), ("memlock", "unlimited"), ("disk", "/", 4000000, 3000000)]
    lines += [("driver", DRIVER.format(spark.driver) if spark.driver else "-")]
    lines += [("gpu", "NVIDIA GB10")] if spark.driver else []
    lines += [("memory", *line.replace(":", "").split()[:2]) for line in MEMORY.splitlines() if "MemFree" not in line]
    lines += [("option", "iommu.passthrough=1"), *(("rdma", name) for name in RDMA if spark.rdma)]
    for net in nets_of(spark):
        lines += _net_lines(net)
    lines += [("address", "lo", "inet6", "::1/128"), *(("neighbor", *one) for one in spark.neighbors), ("end", "")]
    return "\n".join("\t".join(str(one) for one in line) for line in lines) + "\n"


def _net_lines(net: Net) -> Iterator[tuple[object, ...]]:
    fields = (net.mtu, int(net.up), net.speed, net.mac, net.port, net.pci, net.driver, None)
    yield ("net", net.name, *("-" if one is None else one for one in fields), "virtual" if net.virtual else "-")
    if net.address:
        yield "address", net.name, "inet", net.address
    if net.lanes:
        yield "pcie", net.pci, "32.0 GT/s PCIe", net.lanes, "32.0 GT/s PCIe", 16, "-"
    if net.hca:
        state = STATES[net.up]
        yield "hca", net.hca, 1, *state, "Ethernet", net.pci, net.name
        for index, (gid, kind) in net.gids.items():
            yield "gid", net.hca, 1, index, gid, kind, net.name


def write_spark(root: Path, spark: Spark) -> Path:
    """The folder as a machine."""
    _write(root / "proc/sys/kernel/osrelease", KERNEL)
    _write(root / "proc/meminfo", MEMORY.rstrip())
    _write(root / "proc/cmdline", "BOOT_IMAGE=/vmlinuz ro iommu.passthrough=1 quiet")
    arp = [f"{ip} 0x1 0x2 {mac} * {name}" for name, ip, mac in spark.neighbors]
    gone = "10.9.9.9 0x1 0x0 00:00:00:00:00:00 * enP7s7"
    _write(root / "proc/net/arp", "\n".join(["IP address HW type Flags HW address Mask Device", gone, *arp]))
    if spark.driver:
        _write(root / "proc/driver/nvidia/version", DRIVER.format(spark.driver))
        _write(root / "proc/driver/nvidia/gpus/000f:01:00.0/information", "Model: \t\t NVIDIA GB10\nIRQ: 5")
    for device in RDMA if spark.rdma else ():
        _write(root / "dev/infiniband" / device, "")
    nets = nets_of(spark)
    for net in nets:
        _write_net(root, net)
    if spark.virtual is not None:
        _link(root / "sys/devices/0000:01:00.2/physfn", root / "sys/devices/0000:01:00.0")
    lines = [f"2: {net.name}    inet {net.address} scope global {net.name}" for net in nets if net.address]
    _program(root, "ip", "\n".join([*lines, "1: lo    inet6 ::1/128 scope host"]))
    _program(root, "uname", spark.machine)
    _program(root, "date", spark.clock)
    _program(root, "df", "Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/x 4000000 1 3000000 1% /")
    return root


def _write_net(root: Path, net: Net) -> None:
    place = root / "sys/class/net" / net.name
    values = {
        "mtu": net.mtu,
        "address": net.mac,
        "carrier": int(net.up),
        "speed": net.speed,
        "phys_port_name": net.port,
    }
    for key, value in values.items():
        if value is not None:
            _write(place / key, str(value))
    if not net.pci or not net.driver:
        return
    device = root / "sys/devices" / net.pci
    _folder(root / "sys/drivers" / net.driver)
    _link(device / "driver", root / "sys/drivers" / net.driver)
    _link(place / "device", device)
    if net.lanes:
        speeds = {"current_link_speed": "32.0 GT/s PCIe", "max_link_speed": "32.0 GT/s PCIe"}
        for key, text in {**speeds, "current_link_width": str(net.lanes), "max_link_width": "16"}.items():
            _write(device / key, text)
    if net.hca:
        _write(device / "net" / net.name / "mtu", str(net.mtu))
        _write_hca(root / "sys/class/infiniband" / net.hca, device, net)


def _write_hca(place: Path, device: Path, net: Net) -> None:
    _link(place / "device", device)
    port = place / "ports/1"
    for key, text in zip(("state", "rate", "link_layer"), (*STATES[net.up], "Ethernet"), strict=True):
        _write(port / key, text)
    for index in range(8):
        gid, kind = net.gids.get(index, (IPv6Address(0).exploded, ""))
        _write(port / "gids" / str(index), gid)
        if kind:
            _write(port / "gid_attrs/types" / str(index), kind)
            _write(port / "gid_attrs/ndevs" / str(index), net.name)


def _mac(spark: Spark, at: int) -> str:
    return f"4c:bb:47:00:{spark.number:02x}:{at:02x}"


@cache
def _folder(path: Path) -> None:
    path.mkdir(parents=True, exist_ok=True)


def _write(path: Path, text: str) -> None:
    _folder(path.parent)
    path.write_text(f"{text}\n", encoding="utf-8")


def _link(path: Path, target: Path) -> None:
    _folder(path.parent)
    if not path.is_symlink():
        path.symlink_to(target)


def _program(root: Path, name: str, output: str) -> None:
    path = root / "bin" / name
    _write(path, f"#!/bin/sh\ncat <<'END'\n{output}\nEND")
    path.chmod(0o755)


def probed(root: Path, *shell: str) -> str:
    """What the probe says of the folder."""
    env = {**os.environ, "GB10_PROBE_ROOT": str(root), "PATH": f"{root / 'bin'}:{os.environ['PATH']}"}
    argv = [*shell, "-s", "--", "/"]
    return subprocess.run(argv, input=script_text(SCRIPT), env=env, check=True, capture_output=True, text=True).stdout


def facts_of(*sparks: Spark) -> dict[str, NodeFacts]:
    """The facts of machines, by ``spark-N``."""
    found = {f"spark-{spark.number}": read_facts(said(spark)) for spark in sparks}
    return {name: facts for name, facts in found.items() if facts}


def pair() -> tuple[Spark, Spark]:
    """Two Sparks and a cable: each half of the port has a network of its own."""
    one, two = (Spark(number=at, cables={"p0": (f"10.0.0.{at}/24", f"10.0.1.{at}/24")}) for at in (1, 2))
    return one, two


def ring() -> tuple[Spark, ...]:
    """Three Sparks and three cables, from port 0 to the next one's port 1; a network for each half of each cable."""
    cables = [
        {"p0": ("10.0.12.1/24", "10.1.12.1/24"), "p1": ("10.0.31.1/24", "10.1.31.1/24")},
        {"p0": ("10.0.23.2/24", "10.1.23.2/24"), "p1": ("10.0.12.2/24", "10.1.12.2/24")},
        {"p0": ("10.0.31.3/24", "10.1.31.3/24"), "p1": ("10.0.23.3/24", "10.1.23.3/24")},
    ]
    return tuple(Spark(number=at, cables=cable) for at, cable in enumerate(cables, 1))


def switched(count: int) -> tuple[Spark, ...]:
    """Sparks at a switch, port 1; a network for each half."""
    return tuple(Spark(number=at, cables={"p1": (f"10.0.0.{at}/24", f"10.0.1.{at}/24")}) for at in range(1, count + 1))


def circle(count: int, *, length: int = 24) -> tuple[Spark, ...]:
    """Sparks in a ring: port 0 of each goes to port 1 of the next; a network for each half of each cable."""

    def halves(cable: int, end: int) -> tuple[str, str]:
        if length == 24:
            return f"10.0.{cable}.{end}/24", f"10.1.{cable}.{end}/24"
        return f"10.0.0.{4 * cable + end}/{length}", f"10.1.0.{4 * cable + end}/{length}"

    return tuple(
        Spark(number=at + 1, cables={"p0": halves(at, 1), "p1": halves((at - 1) % count, 2)}) for at in range(count)
    )
