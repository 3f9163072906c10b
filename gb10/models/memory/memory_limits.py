"""What a container and PyTorch's allocator may take of a node's memory. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Final

from packaging.version import Version

from gb10.models.memory.engines.budget import Budget, Machine, size_of
from gb10.models.memory.launch import Launch


@dataclass(frozen=True, kw_only=True, slots=True)
class ContainerMemory:
    """Bytes on one node. ``limit`` is all that the server takes, its peak before it answers included.

    ``headroom`` is what the node has beyond ``limit``, the system, other services and the reserve; it is negative where
    the server does not fit. ``counted`` is the part of ``limit`` that a cgroup counts: CUDA's memory is not in it
    (sgl-project/sglang#35860, vllm-project/vllm#56824), so a cgroup's limit alone keeps no Spark alive.
    """

    limit: int
    headroom: int
    counted: int


def container_memory(budget: Budget, launch: Launch, machine: Machine) -> ContainerMemory:
    """The memory of a server's container on a node of this budget."""
    beside = size_of(budget.items, "system and driver", "other services")
    limit = max(budget.serving, budget.load) - beside
    if budget.fits:  # an assumed peak, or a share that leaves no reserve, may be more than the node has
        limit = min(limit, budget.total - beside)
    compiling = machine.figures["first_start" if launch.own_image else "first_start_other"].size
    counted = size_of(budget.items, "processes of the server") + compiling + machine.figures["load_instanttensor"].size
    headroom = budget.total - machine.figures["reserve"].size - beside - limit
    return ContainerMemory(limit=limit, headroom=headroom, counted=counted)


KEY: Final = "per_process_memory_fraction"
NAME: Final = "PYTORCH_ALLOC_CONF"
OLDER: Final = "PYTORCH_CUDA_ALLOC_CONF"
NAMES: Final = (OLDER, NAME)
SINCE: Final = {"vllm": Version("0.17.0"), "sglang": Version("0.5.11")}
"""The first releases that pin a torch which knows the key: 2.10.0 and 2.11.0. Those before pin 2.9.1 or older."""
OUTSIDE: Final = ("processes of the server", "buffers of the network")
"""Items that are no allocation of PyTorch's: Python, CUDA's context, libraries, NCCL. Of a CUDA graph the tensors are
PyTorch's, the rest is not: its whole item stays inside, as room for what is estimated."""
IMAGE: Final = re.compile(
    r"(?:[^@]+/)?(?:vllm|sglang|vllm-openai|dgx-spark-vllm|dgx-spark-sglang)"
    r":v?(?P<release>\d+\.\d+\.\d+(?:\.?(?:post|rc)\d+)?)(?:-[\w.-]+)?(?:@.+)?"
)
"""An image whose tag names the release of its engine. NVIDIA's tags name months, and its torch is its own."""
ASYNC: Final = "cudaMallocAsync"
"""The allocator that does not hold the cap: torch 2.11 gave all of a GPU."""
NVIDIA: Final = "nvcr.io/"


def torch_knows(image: str, engine: str) -> bool | None:
    """Whether PyTorch in an image knows the key, by the release that the tag names; None when that is not known."""
    found = IMAGE.fullmatch(image)
    if found is None or engine not in SINCE or image.startswith(NVIDIA):
        return None
    return Version(found["release"]) >= SINCE[engine]


def torch_bytes(budget: Budget, machine: Machine) -> int:
    """What PyTorch may take on a node of this budget: what the launch needs and a reserve for what is estimated, but
    no more than the node has beside all that is not PyTorch's. Never less than the server asks for; buffers of a load
    are the host's, so these may not exceed that."""
    beside = size_of(budget.items, "system and driver", "other services", *OUTSIDE)
    needed = budget.serving - beside
    room = budget.total - machine.figures["reserve"].size - beside
    return max(needed, min(room, max(needed, budget.load - beside) + machine.figures["torch_reserve"].size))


def torch_bytes_unknown(machine: Machine, share: float | None, *, nodes: int, limit: int | None = None) -> int:
    """The same for a model whose sizes are not known: what a node has, or the ``limit`` of its container, beside all
    that is not PyTorch's. ``share`` is the part of the memory that the command asks for."""
    figures = machine.figures
    outside = figures["processes"].size + (figures["vllm_network"].size if nodes > 1 else 0)
    if limit is not None:
        return max(limit - outside, 0)
    room = machine.total - figures["reserve"].size - figures["system"].size - machine.services - outside
    return max(room, ceil((share or 0) * machine.total))


def fraction_of(size: int, machine: Machine) -> float:
    """Bytes as a part of what CUDA sees, rounded up to a thousandth."""
    return min(ceil(size / machine.total * 1000) / 1000, 1.0)


def with_memory_cap(environment: Mapping[str, str], fraction: float | None) -> dict[str, str]:
    """The variables with the cap, added to what they say already; a cap of the user's own stays as it is.

    Where both names are set, each gets it: PyTorch reads the older one alone. An older one that is empty is set, too.
    """
    found = dict(environment)
    users = next((one for name in NAMES for one in found.get(name, "").split(",") if KEY in one), None)
    if fraction is None and users is None:
        return found
    own = users.strip() if users else f"{KEY}:{fraction:g}"
    given = [name for name in NAMES if name in found] or [NAME]
    added = {name: ",".join(filter(None, (found[name].strip(" ,") if name in found else "", own))) for name in given}
    return found | {name: text for name, text in added.items() if KEY not in found.get(name, "")}


def cap_of(environment: Mapping[str, str]) -> float | None:
    """The cap that PyTorch reads from these variables and holds; None when there is none."""
    text = next((environment[name] for name in NAMES if name in environment), "")
    if ASYNC in text:
        return None
    found = re.search(rf"{KEY}\s*:\s*(0?\.\d+|[01](?:\.0*)?)", text)
    return float(found[1]) if found else None
