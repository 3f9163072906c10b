"""One way in: a model and a launch become the budget of each node, and what would fit where it does not. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from gb10.models.memory.engines.budget import Budget, Machine, gib
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


def estimate(model: Model, launch: Launch, machine: Machine) -> Estimate:
    """The budgets, with remedies where one does not fit. Raises UsageError when the cache is not known."""
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
    return replace(found, remedies=tuple(remedies(model, launch, machine)))


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
        *_table(model, launch, machine),
        *_shares(model, launch, machine),
        *_lengths(model, launch, machine),
        *_batches(model, launch, machine),
    ]
    yield from found
    if not found:
        yield from _more_nodes(model, launch, machine)


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
    while tensor * launch.ranks.stages * launch.replicas <= MOST_NODES:
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
