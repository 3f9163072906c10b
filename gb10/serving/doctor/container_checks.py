"""The signs that a container shows, beside its command and its variables. Each returns what it saw, or None. Pure."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final

from packaging.version import InvalidVersion, Version

from gb10.core.linear_regex import linear
from gb10.models.lint.engine_words import known_words
from gb10.serving.cluster.adapters import ports_of
from gb10.serving.cluster.fabric import rails_of
from gb10.serving.doctor.doctor_rule import ContainerSign
from gb10.serving.doctor.host_state import Machine
from gb10.serving.doctor.image_record import ImageRecord


@dataclass(frozen=True, kw_only=True, slots=True)
class ContainerState:
    """A container. ``command`` is what it runs, in one line; ``environment`` may hold secrets: it is never shown."""

    name: str
    host: str
    image: str = ""
    record: ImageRecord | None = None
    command: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    devices: tuple[str, ...] = ()
    gpus: bool = False
    """It asks for a GPU itself."""
    privileged: bool = False
    runtime: str = ""
    memlock: int | None = None
    """Bytes that it may lock; None where it has its engine's own limit, -1 for no limit."""
    runs: bool = True
    hosts: int = 1
    """The machines of its service."""
    machine: Machine | None = None
    """Where it runs, if that was read."""

    @property
    def label(self) -> str:
        """``HOST NAME``: also the name of its log."""
        return f"{self.host} {self.name}".strip()


GIB: Final = 1 << 30
MUCH_CACHE: Final = 24 * GIB
SEVERAL: Final = re.compile(r"--nnodes[= ]+[2-9]|(?:-tp|--tensor-parallel-size|--tp-size|--tp)[= ]+[2-9]")
RDMA: Final = "/dev/infiniband"
INTERFACES: Final = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")
UNREAD: Final = (
    "TRTLLM_MOE_BACKEND",
    "VLLM_USE_FLASHINFER_MOE_*",
    "VLLM_FLASHINFER_MOE_BACKEND",
    "VLLM_NVFP4_GEMM_BACKEND",
)
"""Variables that recipes of the field set, and that engines of today do not read."""
TOGETHER: Final = ("flashinfer-python", "flashinfer-cubin", "flashinfer-jit-cache")

Check = Callable[[ContainerState], str | None]


def sign_of(sign: ContainerSign, container: ContainerState) -> str | None:
    """What a sign of a rule shows in a container; None when it is not so."""
    if sign.check is not None:
        return CONTAINER_CHECKS[sign.check](container)
    if sign.command is not None:
        found = linear(sign.command).search(container.command)
        return found[0] if found else None
    named = [name for name in container.environment if fnmatchcase(name, sign.env or "")]
    if sign.absent:
        return None if named else f"{sign.env} is not set"
    wanted = linear(sign.value) if sign.value else None
    return next((name for name in named if not wanted or wanted.search(container.environment[name])), None)


def _nodes(container: ContainerState) -> str | None:
    if container.hosts > 1:
        return f"{container.hosts} nodes"
    found = SEVERAL.search(container.command)
    return found[0] if found else None


def _page_cache(container: ContainerState) -> str | None:
    cache = container.machine.look.cache if container.machine else None
    return f"{cache / GIB:.0f} GiB" if cache and cache > MUCH_CACHE else None


def _memlock(container: ContainerState) -> str | None:
    rdma = container.privileged or any(device.startswith(RDMA) for device in container.devices)
    if not rdma or container.memlock == -1:
        return None
    return "the container has RDMA devices and a limit of locked memory"


def _no_request(container: ContainerState) -> str | None:
    asks = container.gpus or container.privileged or any("nvidia" in device for device in container.devices)
    return container.name if container.runtime == "nvidia" and not asks else None


def _cuda(container: ContainerState) -> str | None:
    driver = container.machine.look.cuda if container.machine else None
    image = container.record.cuda if container.record else None
    if not driver or not image:
        return None
    return f"CUDA {image} in the image, {driver} in the driver" if _version(image) > _version(driver) else None


def _version(text: str) -> Version:
    try:
        return Version(text)
    except InvalidVersion:
        return Version("0")


def _two_kinds(container: ContainerState) -> str | None:
    versions = container.record.versions if container.record else {}
    found = {name: _version(versions[name]).base_version for name in TOGETHER if name in versions}
    if versions.get("torch", "").endswith("+cpu"):
        return f"torch {versions['torch']}"
    return ", ".join(f"{name} {version}" for name, version in found.items()) if len(set(found.values())) > 1 else None


def _tcp(container: ContainerState) -> str | None:
    machine = container.machine
    if _nodes(container) is None or machine is None or not rails_of(machine.facts):
        return None
    if container.environment.get("NCCL_IB_DISABLE") == "1":
        return "NCCL_IB_DISABLE=1"
    has = container.privileged or any(device.startswith(RDMA) for device in container.devices)
    return None if has else "no /dev/infiniband in the container"


def _gid_index(container: ContainerState) -> str | None:
    index = container.environment.get("NCCL_IB_GID_INDEX", "")
    machine = container.machine
    if machine is None or not index.isascii() or not index.isdigit() or len(index) > 4:
        return None
    hcas = [hca for hca in machine.facts.hcas if hca.active and hca.ethernet and hca.gids]
    wrong = [hca.name for hca in hcas if not any(gid.index == int(index) and gid.ipv4 for gid in hca.gids)]
    return f"NCCL_IB_GID_INDEX={index} has no IPv4 address on {', '.join(wrong)}" if wrong else None


def _one_half(container: ContainerState) -> str | None:
    named = {name.lstrip("=^").partition(":")[0] for name in container.environment.get("NCCL_IB_HCA", "").split(",")}
    for halves in ports_of(container.machine.facts).values() if container.machine else ():
        usable = {half.hca.name for half in halves if half.hca and half.netdev.carrier}
        if len(usable) > 1 and len(usable & named) == 1:
            return f"NCCL_IB_HCA names {', '.join(sorted(usable & named))} alone"
    return None


def _interface(container: ContainerState) -> str | None:
    known = container.machine.facts.netdevs if container.machine else {}
    for variable in INTERFACES if known else ():
        value = container.environment.get(variable, "")
        names = [] if value.startswith("^") else value.lstrip("=").split(",")
        for name in filter(None, names):
            if not any(one == name or (not value.startswith("=") and one.startswith(name)) for one in known):
                return f"{variable}={name[:40]}"
    return None


def _unread(container: ContainerState) -> str | None:
    record = container.record
    if record is None or not record.engine or not record.release:
        return None
    words = known_words(record.engine, record.release)
    for name in container.environment:
        if any(fnmatchcase(name, pattern) for pattern in UNREAD):
            unread = name.startswith("TRTLLM_") or (words is not None and name not in words.environment)
            if unread:
                return name
    return None


CONTAINER_CHECKS: Final[Mapping[str, Check]] = {
    "page-cache-is-large": _page_cache,
    "memlock-is-limited": _memlock,
    "no-gpu-requested": _no_request,
    "cuda-above-driver": _cuda,
    "wheels-of-two-kinds": _two_kinds,
    "several-nodes": _nodes,
    "nodes-without-rdma": _tcp,
    "gid-index-is-empty": _gid_index,
    "one-half-named": _one_half,
    "interface-unknown": _interface,
    "variable-nobody-reads": _unread,
}
"""By the name in the rules."""
