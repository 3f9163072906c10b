"""How many nodes a recipe needs, and how they form replicas. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gb10.models.load.model_recipe import ModelRecipe
from gb10.models.render.engine_flags import is_on
from gb10.models.render.findings import Findings
from gb10.models.render.parameters import Parameters

SIZES: Final = ("tensor_parallel", "pipeline_parallel", "data_parallel", "expert_parallel", "context_parallel")


@dataclass(frozen=True, kw_only=True, slots=True)
class Topology:
    """``size`` nodes hold one replica of the model (tp x pp); ``replicas`` run side by side.

    ``shared`` is SGLang's attention with data parallelism: the replicas share one replica's nodes. ``asked``: a size
    is set at all; without one, sparkrun takes every node that it is given.
    """

    size: int
    replicas: int
    shared: bool
    asked: bool

    @property
    def world(self) -> int:
        """Nodes of the whole launch; one GPU a node."""
        return self.size if self.shared else self.size * self.replicas


def topology_of(recipe: ModelRecipe, parameters: Parameters, runtime: str, found: Findings) -> Topology:
    """The topology of a recipe's parameters; a size that is no number is an error in ``found``."""
    sizes = dict.fromkeys(SIZES, 1)
    for key in SIZES:
        try:
            sizes[key] = parameters.size(key)
            problem = sizes[key] < 1 and key in SIZES[:3]
        except (ValueError, OverflowError):
            problem = True
        if problem:
            text = f"'{key}' must be a whole number of 1 or more, found {parameters.get(key)!r}"
            found.stop("wrong-type", text, f"write `{key}: 1`", "defaults", key)
    asked = any(parameters.get(key) is not None for key in SIZES)
    if runtime in ("modular-max", "atlas"):
        return Topology(size=_own_size(runtime, sizes), replicas=1, shared=False, asked=asked)
    size = max(1, sizes["tensor_parallel"] * sizes["pipeline_parallel"])
    shared = runtime == "sglang" and shares_nodes(recipe, parameters)
    return Topology(size=size, replicas=max(1, sizes["data_parallel"]), shared=shared, asked=asked)


def _own_size(runtime: str, sizes: Mapping[str, int]) -> int:
    """MAX runs on one node. Atlas has a node for each tensor and expert share; the same nodes when both are equal."""
    tensor, expert = sizes["tensor_parallel"], sizes["expert_parallel"]
    return max(1, 1 if runtime == "modular-max" else tensor if tensor == expert else tensor * expert)


def shares_nodes(recipe: ModelRecipe, parameters: Parameters) -> bool:
    """Whether SGLang's replicas share their nodes: attention with data parallelism."""
    value = parameters.get("enable_dp_attention")
    return is_on(value) if value is not None else "--enable-dp-attention" in (recipe.command or "")
