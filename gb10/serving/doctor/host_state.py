"""What a machine shows at the moment: its GPU, cores, heat, servers, Docker's settings, the end of its last boot. Pure.

`gb10/serving/checkup/look.sh` reads it there, ``look_reading`` makes it of the answer. What cannot be read is None or
absent.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gb10.serving.cluster.fact_reading import NONE, Row, Rows, count_in, each, name_in, one, rows_of
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
    journal: bool = False
    """Whether the kernel's log can be read at all: only then do no lines mean that nothing happened."""
    unreadable: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """All that a machine shows."""

    host: str
    facts: NodeFacts
    look: Look = field(default_factory=Look)


VERSION: Final = "1"
CUDA: Final = re.compile(r"CUDA (?:UMD )?Version\s{0,20}:\s{0,20}(\d{1,2}\.\d{1,2})")
"""As nvidia-smi prints it; newer ones say of which part of the driver."""
STATE: Final = re.compile(r"P\d{1,2}")
PROCESS: Final = re.compile(r"[\w:./+ -]{1,20}")
REASONS: Final = re.compile(r"0x[0-9a-f]{1,16}", re.IGNORECASE)
TIME: Final = re.compile(r"\d{1,12}(?:\.\d{1,9})?")
MILLI: Final = 1000.0


def read_look(text: str) -> Look | None:
    """The look of an answer; None when it is not whole, or not one of this script."""
    rows = rows_of(text)
    if not rows.get("end") or one(rows, "look", name_in) != VERSION:
        return None
    cache = [kib for row in rows.get("cache", ()) if len(row) == 2 and (kib := count_in(row[1])) is not None]
    smi = (CUDA.search(line) for line in _texts(rows, "smi"))
    return Look(
        page=one(rows, "page", count_in),
        cache=sum(cache) << 10 if cache else None,
        gpu=next((gpu for line in _texts(rows, "gpu") if (gpu := _gpu(line))), None),
        cuda=next((found[1] for found in smi if found), None),
        cores=_cores(rows),
        traffic=_traffic(rows),
        heat=dict(each(rows, "heat", 2, _heat)),
        hot=one(rows, "prochot", count_in) not in (None, 0),
        engines=each(rows, "engine", 4, _engine),
        files=_files(rows),
        cdi=each(rows, "cdi", 1, lambda row: row[0]),
        docker=one(rows, "program", name_in) == "docker",
        iommu=dict(each(rows, "iommu", 2, lambda row: (row[0], row[1]) if row[1] != NONE else None)),
        last_boot=_texts(rows, "boot"),
        kernel=_texts(rows, "kernel"),
        journal=one(rows, "journal", name_in) == "kernel",
        unreadable=each(rows, "unreadable", 1, lambda row: row[0]),
    )


def _texts(rows: Rows, key: str) -> tuple[str, ...]:
    return each(rows, key, 2, lambda row: row[1] or None)


def _files(rows: Rows) -> dict[str, str]:
    found: dict[str, list[str]] = {path: [] for path in each(rows, "file", 1, lambda row: row[0])}
    for path, line in each(rows, "text", 2, lambda row: (row[0], row[1])):
        found.setdefault(path, []).append(line)
    return {path: "\n".join(lines) for path, lines in found.items()}


def _gpu(line: str) -> GpuNow | None:
    fields = [field.strip() for field in line.split(",")]
    if len(fields) != 7 or not STATE.fullmatch(fields[0]):
        return None
    state, busy, clock, most, power, heat, reasons = fields
    return GpuNow(
        state=state,
        busy=count_in(busy),
        clock=count_in(clock),
        most=count_in(most),
        power=float(power) if re.fullmatch(r"\d{1,4}\.\d{1,3}", power) else None,
        heat=count_in(heat),
        reasons=int(reasons, 16) if REASONS.fullmatch(reasons) else None,
    )


def _both(rows: Rows, key: str) -> dict[str, tuple[tuple[int, int], tuple[int, int]]]:
    """The two numbers of each name, in both snapshots."""
    found: dict[str, dict[str, tuple[int, int]]] = {"1": {}, "2": {}}
    for row in rows.get(key, ()):
        numbers = [number for field in row[2:] if (number := count_in(field)) is not None]
        if len(row) == 4 and row[0] in found and len(numbers) == 2 and name_in(row[1]):
            found[row[0]][row[1]] = (numbers[0], numbers[1])
    return {name: (found["1"][name], found["2"][name]) for name in found["2"] if name in found["1"]}


def _cores(rows: Rows) -> tuple[float, ...]:
    shares = []
    for (busy, idle), (busy_later, idle_later) in _both(rows, "cpu").values():
        worked, whole = busy_later - busy, busy_later - busy + idle_later - idle
        shares.append(worked / whole if whole > 0 else 0.0)
    return tuple(shares)


def _traffic(rows: Rows) -> dict[str, float]:
    times = {row[0]: float(row[1]) for row in rows.get("at", ()) if len(row) == 2 and TIME.fullmatch(row[1])}
    seconds = times.get("2", 0.0) - times.get("1", 0.0)
    return {
        name: (sum(later) - sum(before)) / seconds
        for name, (before, later) in _both(rows, "traffic").items()
        if seconds > 0
    }


def _heat(row: Row) -> tuple[str, float] | None:
    degrees = count_in(row[1])
    return (row[0], degrees / MILLI) if degrees is not None and name_in(row[0]) else None


def _engine(row: Row) -> EngineProcess | None:
    pid, parent = count_in(row[0]), count_in(row[2])
    if pid is None or parent is None or not PROCESS.fullmatch(row[1]):
        return None
    return EngineProcess(pid=pid, name=row[1], parent=parent, parent_name=row[3] if PROCESS.fullmatch(row[3]) else "")
