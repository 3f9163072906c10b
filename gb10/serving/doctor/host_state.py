"""What a machine shows at the moment: its GPU, cores, heat, servers, Docker's settings, the end of its last boot. Pure.

`gb10/serving/checkup/look.sh` reads it there, ``look_reading`` makes it of the answer. What cannot be read is None or
absent.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gb10.serving.cluster.node_facts import NodeFacts


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuNow:
    """What nvidia-smi prints of the GPU: MHz, watts, per cent, degrees; ``reasons`` are a bit field."""

    state: str
    busy: int | None = None
    clock: int | None = None
    most: int | None = None
    power: float | None = None
    heat: int | None = None
    reasons: int | None = None

    def __str__(self) -> str:
        power = f", {self.power:g} W" if self.power is not None else ""
        return f"{self.state}, {self.busy} %, {self.clock} MHz{power}"


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineProcess:
    """A part of a server, as the kernel shortens its name, and the process that it belongs to."""

    pid: int
    name: str
    parent: int
    parent_name: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """A machine at one moment."""

    page: int | None = None
    """Bytes of a page."""
    cache: int | None = None
    """Bytes of the page cache."""
    gpu: GpuNow | None = None
    cuda: str | None = None
    """The newest CUDA that the driver knows (``13.0``)."""
    cores: tuple[float, ...] = ()
    """How busy each core is, 0 to 1."""
    traffic: Mapping[str, float] = field(default_factory=dict)
    """Bytes a second of each interface, that the kernel carries: RoCE is not among them."""
    heat: Mapping[str, float] = field(default_factory=dict)
    """Degrees by thermal zone."""
    hot: bool = False
    """The firmware slows the machine down (PROCHOT of the driver spark_hwmon)."""
    engines: tuple[EngineProcess, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    """Docker's and the toolkit's settings."""
    cdi: tuple[str, ...] = ()
    docker: bool = False
    iommu: Mapping[str, str] = field(default_factory=dict)
    """How the IOMMU serves each RDMA device (``identity``, ``DMA``)."""
    last_boot: tuple[str, ...] = ()
    """The last lines of the boot before."""
    kernel: tuple[str, ...] = ()
    """Lines of the kernel about the GPU, the adapter and memory."""
    unreadable: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """All that a machine shows."""

    host: str
    facts: NodeFacts
    look: Look = field(default_factory=Look)
