"""The signs that a machine itself shows. Each function returns what it saw, or nothing. Pure."""

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from gb10.core.linear import linear
from gb10.serving.cluster.adapters import JUMBO, LANES, ports_of
from gb10.serving.doctor.host_state import Machine

DAEMON: Final = "/etc/docker/daemon.json"
TOOLKIT: Final = "/etc/nvidia-container-runtime/config.toml"


GIB: Final = 1 << 30
LARGE_SWAP: Final = 8 * GIB
LARGE_USE: Final = 0.6
BUSY: Final = 90
"""Per cent of the GPU's time."""
LOW_CLOCK, LOW_POWER = 1000, 30.0
APPLICATION: Final = range(2281, 2419)
"""MHz at which a GB10 runs when nothing was set."""
HOT: Final = 84.0
"""Degrees of the SoC that were reported with cores that spin."""
SPINS: Final = 0.95
REFUSING: Final = re.compile(r"7\.0\.0-1019\b")
ORPHANED: Final = ("systemd", "init", "sleep", "tini", "docker-init", "dumb-init", "containerd-shim", "catatonit")
"""Processes that are left with what lost its own parent."""
ENDINGS: Final = (
    r"Shutting down|Journal stopped|systemd-shutdown|Power(?:ing)? down"
    r"|Reached target.*(?:Power.?Off|Reboot|Shutdown|Halt)"
)
PACKETS: Final = 5e8
"""Bytes a second through the kernel that no management traffic reaches."""
TRANSLATES: Final = ("DMA", "DMA-FQ")

Check = Callable[[Machine], Iterator[str]]


def _cma(machine: Machine) -> Iterator[str]:
    memory = machine.facts.memory
    if memory.cma is not None and memory.cma_free is not None and memory.cma_free > memory.cma:
        yield f"CmaFree {memory.cma_free // GIB} GiB is above CmaTotal, kernel {machine.facts.kernel}"


def _registration(machine: Machine) -> Iterator[str]:
    if machine.facts.rdma_devices and REFUSING.match(machine.facts.kernel or ""):
        yield f"kernel {machine.facts.kernel}"


def _swap(machine: Machine) -> Iterator[str]:
    memory = machine.facts.memory
    if not memory.total or memory.available is None or not memory.swap or "earlyoom" in machine.facts.services:
        return
    used = 1 - memory.available / memory.total
    if memory.swap > LARGE_SWAP and used > LARGE_USE:
        yield f"{memory.swap / GIB:.0f} GiB of swap, and {used:.0%} of the memory is in use"


def _pages(machine: Machine) -> Iterator[str]:
    if machine.look.page == 65536:
        yield "pages of 64 KiB"


def _orphans(machine: Machine) -> Iterator[str]:
    for one in machine.look.engines:
        if one.name.startswith("VLLM::EngineCor") and (one.parent == 1 or one.parent_name in ORPHANED):
            yield f"{one.name}, process {one.pid}"


def _low_clock(machine: Machine) -> Iterator[str]:
    gpu = machine.look.gpu
    if gpu is None or gpu.busy is None or gpu.clock is None or gpu.state != "P0" or gpu.busy <= BUSY or gpu.reasons:
        return
    if gpu.clock < LOW_CLOCK and (gpu.power is None or gpu.power < LOW_POWER):
        yield str(gpu)


def _application_clock(machine: Machine) -> Iterator[str]:
    gpu = machine.look.gpu
    if gpu and gpu.busy is not None and gpu.busy > BUSY and gpu.clock in APPLICATION and (gpu.most or 0) > 3000:
        yield str(gpu)


def _spinning(machine: Machine) -> Iterator[str]:
    spins = sum(core > SPINS for core in machine.look.cores)
    hottest = max(machine.look.heat.values(), default=0.0)
    workers = any(one.name.startswith("VLLM::Worker") for one in machine.look.engines)
    if spins >= 3 and hottest >= HOT and workers:
        yield f"{spins} cores busy, {hottest:.0f} °C"


def _power_lost(machine: Machine) -> Iterator[str]:
    lines = machine.look.last_boot
    if lines and not any(linear(ENDINGS, ignore_case=True).search(line) for line in lines):
        yield f"its journal ends with: {lines[-1][:120]}"


def _no_gpus(machine: Machine) -> Iterator[str]:
    """Docker knows no way to give a GPU to a container, as far as its files tell."""
    look = machine.look
    if not look.docker or not machine.facts.driver or DAEMON in look.unreadable or look.cdi:
        return
    try:
        found = json.loads(look.files.get(DAEMON, ""))
    except (ValueError, RecursionError):
        found = None
    runtimes = found.get("runtimes") if isinstance(found, dict) else None
    if not isinstance(runtimes, dict) or "nvidia" not in runtimes:
        yield "no runtime of NVIDIA in /etc/docker/daemon.json, and no CDI file"


def _cdi(machine: Machine) -> Iterator[str]:
    """NVIDIA's toolkit is in the mode that refuses --gpus."""
    try:
        found = tomllib.loads(machine.look.files.get(TOOLKIT, ""))
    except (tomllib.TOMLDecodeError, RecursionError):
        return
    section = found.get("nvidia-container-runtime")
    if isinstance(section, dict) and section.get("mode") == "cdi":
        yield 'mode = "cdi" in /etc/nvidia-container-runtime/config.toml'


def _link_local(machine: Machine) -> Iterator[str]:
    for hca in machine.facts.hcas:
        if hca.active and hca.ethernet and hca.gids and not any(gid.ipv4 for gid in hca.gids):
            yield f"{hca.name} has link-local GIDs alone"


def _halves(machine: Machine) -> Iterator[str]:
    for halves in ports_of(machine.facts).values():
        linked = [half for half in halves if half.netdev.carrier]
        idle = [half.netdev.name for half in linked if not half.rails]
        if 0 < len(idle) < len(linked):
            yield f"{', '.join(idle)} has no address"


def _frames(machine: Machine) -> Iterator[str]:
    for half in (half for halves in ports_of(machine.facts).values() for half in halves if half.rails):
        if half.netdev.mtu is not None and half.netdev.mtu < JUMBO:
            yield f"{half.netdev.mtu} ({half.netdev.name})"


def _lanes(machine: Machine) -> Iterator[str]:
    for half in (half for halves in ports_of(machine.facts).values() for half in halves if half.netdev.carrier):
        if half.pcie and half.pcie.width is not None and half.pcie.width < LANES:
            yield f"{half.netdev.name} has x{half.pcie.width}"


def _iommu(machine: Machine) -> Iterator[str]:
    active = {hca.name for hca in machine.facts.hcas if hca.active}
    named = [name for name, kind in machine.look.iommu.items() if kind in TRANSLATES and name in active]
    if named:
        yield f"{', '.join(sorted(named))}: {machine.look.iommu[named[0]]}"


def _packets(machine: Machine) -> Iterator[str]:
    spins = sum(core > SPINS for core in machine.look.cores)
    adapters = {half.netdev.name for halves in ports_of(machine.facts).values() for half in halves}
    for name in sorted(adapters & machine.look.traffic.keys()):
        rate = machine.look.traffic[name]
        if rate > PACKETS and spins >= 2:
            yield f"{rate / 1e9:.1f} GB/s through {name}, {spins} cores busy"


HOST_CHECKS: Final[Mapping[str, Check]] = {
    "cma-below-nothing": _cma,
    "kernel-refuses-registration": _registration,
    "swap-behind-large-use": _swap,
    "pages-of-64-kib": _pages,
    "engine-without-server": _orphans,
    "busy-at-low-clock": _low_clock,
    "busy-at-application-clock": _application_clock,
    "hot-and-spinning": _spinning,
    "boot-without-shutdown": _power_lost,
    "docker-without-gpus": _no_gpus,
    "toolkit-mode-cdi": _cdi,
    "gids-are-link-local": _link_local,
    "half-without-address": _halves,
    "mtu-below-9000": _frames,
    "pcie-below-four-lanes": _lanes,
    "adapter-behind-iommu": _iommu,
    "cores-carry-packets": _packets,
}
"""By the name in the rules."""
