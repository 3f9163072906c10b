"""What a container may take on a node, for whoever starts one: a launcher, systemd, Kubernetes. Pure."""

from dataclasses import dataclass

from gb10.models.memory.engines.budget import Budget, size_of
from gb10.models.memory.engines.shared import Machine
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
