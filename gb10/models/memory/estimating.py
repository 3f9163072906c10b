"""A model and a launch become the budget of each node, what would fit, and the limits of containers. Pure."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import Final

from packaging.version import Version

from gb10.models.memory.engines.budget import GROWN, HOST_TIER, OFFLOADED, ROUNDED, Budget, Machine, gib, size_of
from gb10.models.memory.engines.others import other_budget
from gb10.models.memory.engines.sglang import sglang_budget
from gb10.models.memory.engines.vllm import vllm_budget
from gb10.models.memory.launch import Launch
from gb10.models.memory.model import Model

BUDGETS: Final = {"vllm": vllm_budget, "sglang": sglang_budget}
STEP: Final = 0.01
"""Of a share of memory."""
LENGTH_STEP: Final = 1024
SHORTEST: Final = 1024
NEARLY_FULL: Final = ("share-too-large", "headroom-too-small")
"""Codes of a node that keeps less than its reserve."""
MOST_NODES: Final = 16
OF_NODES: Final = ("needs ", "does not fit")
"""How a remedy begins that is about the number of nodes."""
SHARE_NAMES: Final[Mapping[str, str]] = {
    "vllm": "gpu_memory_utilization",
    "sglang": "gpu_memory_utilization (--mem-fraction-static)",
    "trtllm": "free_gpu_memory_fraction",
}
LENGTH_NAMES: Final[Mapping[str, str]] = {"llama-cpp": "ctx_size"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """The budgets of a launch, one for the nodes of each pipeline stage."""

    model: str
    launch: Launch
    budgets: tuple[Budget, ...]
    remedies: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """What a reader should know beside the figures."""

    @property
    def fits(self) -> bool:
        """Whether every node has room."""
        return all(budget.fits for budget in self.budgets)

    @property
    def tightest(self) -> Budget:
        """The node that uses the most memory."""
        return max(self.budgets, key=lambda budget: (not budget.fits, budget.serving))


def estimate(model: Model, launch: Launch, machine: Machine, *, advised: bool = True) -> Estimate:
    """The budgets, with remedies where one does not fit. Raises UsageError when the cache is not known.

    ``advised`` is false where nobody reads the remedies: they take some hundred estimates.
    """
    budgets = tuple(_budget(model, launch, machine, stage) for stage in range(launch.ranks.stages))
    found = Estimate(model=model.name, launch=launch, budgets=budgets, notes=model.notes)
    if found.fits:
        return found
    if launch.fork and model.table and not launch.table_in_file:
        aside = estimate(model, replace(launch, table_in_file=True), machine)
        if aside.fits:
            note = (
                f"the table of {gib(model.table)} is left out: the model fits only with its table in a file. "
                "The command has options that no release has; where that engine keeps the table was not looked at"
            )
            return replace(aside, notes=(*aside.notes, note))
    return replace(found, remedies=tuple(remedies(model, launch, machine))) if advised else found


def _budget(model: Model, launch: Launch, machine: Machine, stage: int) -> Budget:
    return BUDGETS.get(launch.engine, other_budget)(model, launch, machine, stage)


def _fits(model: Model, launch: Launch, machine: Machine, *, with_reserve: bool = False) -> bool:
    """Whether each stage fits; ``with_reserve``: and leaves the node its reserve."""
    budgets = [_budget(model, launch, machine, stage) for stage in range(launch.ranks.stages)]
    full = [one for budget in budgets for one in budget.problems if one.code in NEARLY_FULL]
    return all(budget.fits for budget in budgets) and not (with_reserve and full)


def remedies(model: Model, launch: Launch, machine: Machine) -> Iterator[str]:
    """The largest value of each parameter that fits with all others as they are; or the nodes that are needed."""
    found = [
        *_plainer(model, launch, machine),
        *_table(model, launch, machine),
        *_shares(model, launch, machine),
        *_lengths(model, launch, machine),
        *_batches(model, launch, machine),
    ]
    yield from found
    if not found:
        yield from _more_nodes(model, launch, machine)


def _plainer(model: Model, launch: Launch, machine: Machine) -> Iterator[str]:
    """The launch without what an engine refuses or what only copies: context parallelism, a tier in host memory."""
    whole = replace(launch, sequence_ranks=1, prefill_ranks=1)
    if whole != launch and _fits(model, whole, machine):
        yield "without context parallelism it fits"
    tier = launch.host_tier
    if tier is not None and _fits(model, replace(launch, host_tier=None), machine):
        yield f"without {tier.option} it fits"


def _table(model: Model, launch: Launch, machine: Machine) -> Iterator[str]:
    if launch.engine == "sglang" and model.table and not launch.table_in_file:
        aside = replace(launch, table_in_file=True)
        if _fits(model, aside, machine):
            yield f"--ple-offload-backend file fits: a table of {gib(model.table)} stays in a file"


def _shares(model: Model, launch: Launch, machine: Machine) -> Iterator[str]:
    if launch.engine not in SHARE_NAMES or launch.cache_size is not None:
        return
    shares = [round(step * STEP, 2) for step in range(95, 4, -1)]
    fitting = [share for share in shares if _fits(model, replace(launch, fraction=share), machine)]
    roomy = [share for share in fitting if _fits(model, replace(launch, fraction=share), machine, with_reserve=True)]
    fitting = roomy or fitting
    now = launch.fraction or 1.0
    closest = min(fitting, key=lambda share: abs(share - now), default=None)
    if closest is not None:
        yield f"{SHARE_NAMES[launch.engine]} {closest} fits"


def _lengths(model: Model, launch: Launch, machine: Machine) -> Iterator[str]:
    """The longest request that fits, by halving: a shorter one never needs more."""
    low, high = 0, (launch.length or 0) // LENGTH_STEP
    while low < high:
        middle = (low + high + 1) // 2
        if _fits(model, replace(launch, length=middle * LENGTH_STEP), machine):
            low = middle
        else:
            high = middle - 1
    if low:
        yield f"{LENGTH_NAMES.get(launch.engine, 'max_model_len')} {low * LENGTH_STEP} fits"


def _batches(model: Model, launch: Launch, machine: Machine) -> Iterator[str]:
    batched = (launch.batched or 8192) // 2
    while batched >= SHORTEST:
        if _fits(model, replace(launch, batched=batched), machine):
            yield f"max_num_batched_tokens {batched} fits"
            return
        batched //= 2


def _more_nodes(model: Model, launch: Launch, machine: Machine) -> Iterator[str]:
    """Twice, four times… as many nodes, with the share of memory that fits there."""
    tensor = launch.ranks.tensor * 2
    while tensor * launch.ranks.stages * launch.prefill_ranks * launch.replicas <= MOST_NODES:
        wider = replace(launch, ranks=replace(launch.ranks, tensor=tensor))
        if _fits(model, wider, machine):
            yield f"needs {wider.nodes} nodes (tensor_parallel {tensor})"
            return
        better = next(_shares(model, wider, machine), None) or next(_lengths(model, wider, machine), None)
        if better:
            yield f"needs {wider.nodes} nodes (tensor_parallel {tensor}), where {better}"
            return
        tensor *= 2
    yield f"does not fit on {MOST_NODES} nodes: choose a smaller model, or one with fewer bits"


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
    of_host = size_of(budget.items, "processes of the server", GROWN, HOST_TIER, OFFLOADED, ROUNDED)
    counted = of_host + budget.compilers + machine.figures["load_instanttensor"].size
    headroom = budget.total - machine.figures["reserve"].size - beside - limit
    return ContainerMemory(limit=limit, headroom=headroom, counted=counted)


KEY: Final = "per_process_memory_fraction"
NAME: Final = "PYTORCH_ALLOC_CONF"
OLDER: Final = "PYTORCH_CUDA_ALLOC_CONF"
NAMES: Final = (OLDER, NAME)
SINCE: Final = {"vllm": Version("0.17.0"), "sglang": Version("0.5.11")}
"""The first releases that pin a torch which knows the key: 2.10.0 and 2.11.0. Those before pin 2.9.1 or older."""
OUTSIDE: Final = ("processes of the server", GROWN, "buffers of the network", HOST_TIER, OFFLOADED, ROUNDED)
"""Items that are no allocation of PyTorch's on the GPU: Python, CUDA's context, libraries, NCCL, host memory. Of a CUDA
graph the tensors are PyTorch's, the rest is not: its whole item stays inside, as room for what is estimated."""
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
    available = budget.total - machine.figures["reserve"].size - beside
    return max(needed, min(available, max(needed, budget.load - beside) + machine.figures["torch_reserve"].size))


def torch_bytes_unknown(machine: Machine, share: float | None, *, nodes: int, limit: int | None = None) -> int:
    """The same for a model whose sizes are not known: what a node has, or the ``limit`` of its container, beside all
    that is not PyTorch's. ``share`` is the part of the memory that the command asks for."""
    figures = machine.figures
    outside = figures["processes"].size + (figures["vllm_network"].size if nodes > 1 else 0)
    if limit is not None:
        return max(limit - outside, 0)
    available = machine.total - figures["reserve"].size - figures["system"].size - machine.services - outside
    return max(available, ceil((share or 0) * machine.total))


def fraction_of(size: int, machine: Machine) -> float:
    """Bytes as a part of what CUDA sees, rounded up to a thousandth."""
    return min(ceil(size / machine.total * 1000) / 1000, 1.0)


def capped(environment: Mapping[str, str], fraction: float | None) -> dict[str, str]:
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
