"""The signs that a machine itself shows, by their names in the rules, and what of it could not be read. Pure."""

import json
import re
import tomllib
from collections.abc import Iterator
from typing import Final, Literal

from gb10.core.checked import NotChecked
from gb10.core.linear_regex import linear
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

HostSign = Literal[
    "cma-below-nothing",
    "kernel-refuses-registration",
    "swap-behind-large-use",
    "pages-of-64-kib",
    "engine-without-server",
    "busy-at-low-clock",
    "busy-at-application-clock",
    "hot-and-spinning",
    "slowed-by-firmware",
    "boot-without-shutdown",
    "docker-without-gpus",
    "toolkit-mode-cdi",
    "gids-are-link-local",
    "half-without-address",
    "mtu-below-9000",
    "pcie-below-four-lanes",
    "adapter-behind-iommu",
    "cores-carry-packets",
]
Signs = Iterator[tuple[HostSign, str]]


def host_signs(machine: Machine) -> Signs:
    """Each sign that a machine shows, as often as it shows it."""
    yield from _of_kernel(machine)
    yield from _of_load(machine)
    yield from _of_docker(machine)
    yield from _of_fast_link(machine)


def _of_kernel(machine: Machine) -> Signs:
    """Memory, the kernel's release and pages, and how the last boot ended."""
    memory, kernel = machine.facts.memory, machine.facts.kernel
    if memory.cma is not None and memory.cma_free is not None and memory.cma_free > memory.cma:
        yield "cma-below-nothing", f"CmaFree {memory.cma_free // GIB} GiB is above CmaTotal, kernel {kernel}"
    if machine.facts.rdma_devices and REFUSING.match(kernel or ""):
        yield "kernel-refuses-registration", f"kernel {kernel}"
    if memory.total and memory.available is not None and memory.swap and "earlyoom" not in machine.facts.services:
        used = 1 - memory.available / memory.total
        if memory.swap > LARGE_SWAP and used > LARGE_USE:
            text = f"{memory.swap / GIB:.0f} GiB of swap, and {used:.0%} of the memory is in use"
            yield "swap-behind-large-use", text
    if machine.look.page == 65536:
        yield "pages-of-64-kib", "pages of 64 KiB"
    lines = machine.look.last_boot
    if lines and not any(linear(ENDINGS, ignore_case=True).search(line) for line in lines):
        yield "boot-without-shutdown", f"its journal ends with: {lines[-1][:120]}"


def _of_load(machine: Machine) -> Signs:
    """Processes of engines, the GPU's clock, and cores that spin."""
    for one in machine.look.engines:
        if one.name.startswith("VLLM::EngineCor") and (one.parent == 1 or one.parent_name in ORPHANED):
            yield "engine-without-server", f"{one.name}, process {one.pid}"
    gpu = machine.look.gpu
    if gpu and gpu.busy is not None and gpu.busy > BUSY:
        slow = gpu.clock is not None and gpu.clock < LOW_CLOCK and (gpu.power is None or gpu.power < LOW_POWER)
        if slow and gpu.state == "P0" and not gpu.reasons:
            yield "busy-at-low-clock", str(gpu)
        if gpu.clock in APPLICATION and (gpu.most or 0) > 3000:
            yield "busy-at-application-clock", str(gpu)
    spins = sum(core > SPINS for core in machine.look.cores)
    hottest = max(machine.look.heat.values(), default=0.0)
    workers = any(one.name.startswith("VLLM::Worker") for one in machine.look.engines)
    if spins >= 3 and hottest >= HOT and workers:
        yield "hot-and-spinning", f"{spins} cores busy, {hottest:.0f} °C"
    if machine.look.hot:
        yield "slowed-by-firmware", f"PROCHOT is set, hottest zone {hottest:.0f} °C" if hottest else "PROCHOT is set"
    adapters = {half.netdev.name for halves in ports_of(machine.facts).values() for half in halves}
    for name in sorted(adapters & machine.look.traffic.keys()):
        rate = machine.look.traffic[name]
        if rate > PACKETS and spins >= 2:
            yield "cores-carry-packets", f"{rate / 1e9:.1f} GB/s through {name}, {spins} cores busy"


def _of_docker(machine: Machine) -> Signs:
    """Whether Docker can give a GPU to a container, as far as its files tell, and the mode of NVIDIA's toolkit."""
    look = machine.look
    if look.docker and machine.facts.driver and DAEMON not in look.unreadable and not look.cdi:
        try:
            settings = json.loads(look.files.get(DAEMON, ""))
        except (ValueError, RecursionError):
            settings = None
        runtimes = settings.get("runtimes") if isinstance(settings, dict) else None
        if not isinstance(runtimes, dict) or "nvidia" not in runtimes:
            yield "docker-without-gpus", "no runtime of NVIDIA in /etc/docker/daemon.json, and no CDI file"
    try:
        section = tomllib.loads(look.files.get(TOOLKIT, "")).get("nvidia-container-runtime")
    except (tomllib.TOMLDecodeError, RecursionError):
        section = None
    if isinstance(section, dict) and section.get("mode") == "cdi":  # it refuses --gpus
        yield "toolkit-mode-cdi", 'mode = "cdi" in /etc/nvidia-container-runtime/config.toml'


def _of_fast_link(machine: Machine) -> Signs:
    """Addresses, frames and PCIe lanes of the adapters."""
    for hca in machine.facts.hcas:
        if hca.active and hca.ethernet and hca.gids and not any(gid.ipv4 for gid in hca.gids):
            yield "gids-are-link-local", f"{hca.name} has link-local GIDs alone"
    for halves in ports_of(machine.facts).values():
        linked = [half for half in halves if half.netdev.carrier]
        idle = [half.netdev.name for half in linked if not half.rails]
        if 0 < len(idle) < len(linked):
            yield "half-without-address", f"{', '.join(idle)} has no address"
        for half in halves:
            if half.rails and half.netdev.mtu is not None and half.netdev.mtu < JUMBO:
                yield "mtu-below-9000", f"{half.netdev.mtu} ({half.netdev.name})"
        for half in linked:
            if half.pcie and half.pcie.width is not None and half.pcie.width < LANES:
                yield "pcie-below-four-lanes", f"{half.netdev.name} has x{half.pcie.width}"
    active = {hca.name for hca in machine.facts.hcas if hca.active}
    named = [name for name, kind in machine.look.iommu.items() if kind in TRANSLATES and name in active]
    if named:
        yield "adapter-behind-iommu", f"{', '.join(sorted(named))}: {machine.look.iommu[named[0]]}"


def unseen(machine: Machine) -> tuple[NotChecked, ...]:
    """A row for each part of a machine that its rules need and that could not be read, with the reason."""
    facts, look = machine.facts, machine.look
    gpu = look.gpu
    parts = {
        "GPU": None if facts.driver else "no NVIDIA driver is loaded",
        "clock, power and use of the GPU": (
            None
            if not facts.driver or (gpu and gpu.busy is not None and gpu.clock is not None)
            else "nvidia-smi is missing, did not answer in 3 s, or does not name them"
        ),
        "CUDA of the driver": "nvidia-smi --version does not name it" if facts.driver and not look.cuda else None,
        "memory": None if facts.memory.total else "/proc/meminfo cannot be read",
        "use of the cores": None if look.cores else "/proc/stat cannot be read",
        "temperatures": None if look.heat else "/sys/class/thermal has no zone that can be read",
        "kernel's log": None if look.journal else "journalctl is missing, or shows this user no line of the kernel",
        "end of the boot before": (
            None if look.last_boot else "journalctl is missing, keeps no boot before, or this user may not read it"
        ),
        "network": None if facts.netdevs else "nothing in /sys/class/net can be read",
        "fast link": "/sys/class/net has no ConnectX adapter" if facts.netdevs and not ports_of(facts) else None,
        "RDMA": (
            "/sys/class/infiniband has no device: is the kernel's module mlx5_ib loaded?"
            if ports_of(facts) and not facts.hcas
            else None
        ),
        **dict.fromkeys(look.unreadable, "this user may not read it"),
    }
    return tuple(
        NotChecked(what=what, reason=reason, where=machine.host) for what, reason in parts.items() if reason is not None
    )
