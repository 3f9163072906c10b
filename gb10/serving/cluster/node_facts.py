"""What a machine says of itself, typed. What cannot be read is None or absent, and never guessed. Pure.

`gb10/serving/cluster/probe.sh` reads it there, `read_facts` makes it of the answer, `probing.read_node` does both. A
fact more is a line of the script, a field here, and its row in ``fact_reading``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Interface, IPv6Address


@dataclass(frozen=True, kw_only=True, slots=True)
class Memory:
    """Bytes; CUDA may see less than is available where the kernel keeps memory for itself (``cma``)."""

    total: int | None = None
    available: int | None = None
    swap: int | None = None
    cma: int | None = None
    cma_free: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Disk:
    """The file system of a folder, in bytes."""

    folder: str
    total: int
    free: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Netdev:
    """A network interface. ``speed`` in Mb/s; ``port`` as the adapter prints it (``p0``); ``pci`` its function."""

    name: str
    mtu: int | None = None
    carrier: bool | None = None
    speed: int | None = None
    mac: str | None = None
    port: str | None = None
    pci: str | None = None
    driver: str | None = None
    master: str | None = None
    """The bond or bridge that it is part of."""
    virtual: bool = False
    """A virtual function of another one (SR-IOV)."""
    addresses: tuple[IPv4Interface, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Neighbor:
    """An adapter (``mac``) that answered for an address, at the other end of an interface: the kernel's ARP table."""

    netdev: str
    address: IPv4Address
    mac: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Pcie:
    """The PCIe link of a function: gigatransfers a second and lanes, now and at most."""

    pci: str
    speed: float | None = None
    width: int | None = None
    max_speed: float | None = None
    max_width: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Gid:
    """An address of RDMA. ``kind`` is ``RoCE v2``, or an older protocol that NCCL does not use."""

    index: int
    address: IPv6Address
    kind: str | None = None
    netdev: str | None = None

    @property
    def ipv4(self) -> IPv4Address | None:
        """The IPv4 address that it stands for (``::ffff:10.0.0.1``)."""
        return self.address.ipv4_mapped


@dataclass(frozen=True, kw_only=True, slots=True)
class Hca:
    """A port of an RDMA device. ``rate`` as the kernel prints it."""

    name: str
    port: int
    active: bool | None = None
    rate: str | None = None
    ethernet: bool | None = None
    pci: str | None = None
    netdevs: tuple[str, ...] = ()
    gids: tuple[Gid, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeFacts:
    """One machine."""

    kernel: str | None = None
    machine: str | None = None
    """``aarch64``, ``x86_64``."""
    clock: float | None = None
    """Its own time, in seconds since 1970."""
    memlock: int | None = None
    """KiB that a login there may lock; -1 is no limit."""
    driver: str | None = None
    """The release of NVIDIA's driver."""
    gpus: tuple[str, ...] = ()
    memory: Memory = field(default_factory=Memory)
    options: tuple[str, ...] = ()
    """Words of the kernel's command line that matter to RDMA and memory."""
    disks: tuple[Disk, ...] = ()
    services: frozenset[str] = frozenset()
    """Programs that run there and end others when memory is short."""
    rdma_devices: tuple[str, ...] = ()
    """Names in /dev/infiniband."""
    netdevs: Mapping[str, Netdev] = field(default_factory=dict)
    pcie: Mapping[str, Pcie] = field(default_factory=dict)
    hcas: tuple[Hca, ...] = ()
    neighbors: tuple[Neighbor, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """A machine's facts; ``ahead`` is how far its clock is before ours, and ``within`` how exactly that is known."""

    facts: NodeFacts
    ahead: float | None = None
    within: float = 0.0

    @property
    def skew(self) -> float:
        """Seconds by which its clock is surely wrong, or ours: more than zero is ahead; zero when that is not known."""
        if self.ahead is None or abs(self.ahead) <= self.within:
            return 0.0
        return self.ahead
