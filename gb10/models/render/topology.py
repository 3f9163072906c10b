"""How many nodes a recipe needs, and how they form replicas. Pure."""

from dataclasses import dataclass

from gb10.models.load.model_recipe import ModelRecipe
from gb10.models.render.engine_flags import is_on
from gb10.models.render.findings import Findings
from gb10.models.render.parameters import Parameters


@dataclass(frozen=True, kw_only=True, slots=True)
class Topology:
    """``size`` nodes hold one replica of the model (tp x pp); ``replicas`` run side by side.

    ``shared`` is SGLang's attention with data parallelism: the replicas share one replica's nodes.
    """

    size: int
    replicas: int
    shared: bool

    @property
    def world(self) -> int:
        """Nodes of the whole launch; one GPU a node."""
        return self.size if self.shared else self.size * self.replicas


def topology_of(recipe: ModelRecipe, parameters: Parameters, runtime: str, found: Findings) -> Topology:
    """The topology of a recipe's parameters; a size that is no number is an error in ``found``."""
    sizes = {"tensor_parallel": 1, "pipeline_parallel": 1, "data_parallel": 1}
    for key in sizes:
        try:
            sizes[key] = parameters.size(key)
        except (ValueError, OverflowError):
            text = f"'{key}' must be a whole number, found {parameters.get(key)!r}"
            found.stop("wrong-type", text, f"write `{key}: 1`", "defaults", key)
    size = max(1, sizes["tensor_parallel"] * sizes["pipeline_parallel"])
    shared = runtime == "sglang" and _shares(recipe, parameters)
    return Topology(size=size, replicas=max(1, sizes["data_parallel"]), shared=shared)


def _shares(recipe: ModelRecipe, parameters: Parameters) -> bool:
    value = parameters.get("enable_dp_attention")
    return is_on(value) if value is not None else "--enable-dp-attention" in (recipe.command or "")
