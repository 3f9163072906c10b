"""How many nodes a recipe needs, and how they form replicas. Pure."""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gb10.models.load.model_recipe import ModelRecipe
from gb10.models.render.engine_flags import is_on
from gb10.models.render.parameters import Parameters
from gb10.models.render.rendered import Findings

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


PORT: Final = re.compile(r"--port[=\s]+[\"']?(\d{1,5})\b")
FIRST: Final = 8000
"""The port of an API for which a launcher's own meeting port is kept."""
API_PORTS: Final = {"sglang": 30000, "llama-cpp": 8080}
"""Where an engine listens that is not told; vLLM and the others take 8000."""
BLOCKS: Final = ((1, 1023), (1024, 32767), (32768, 65535))
"""Ports that only root may open, those of servers, and those that Linux hands out to connections by itself."""


@dataclass(frozen=True, slots=True)
class Meeting:
    """Where ranks meet. ``api`` is None for a peer's form, which has the peer's own port for every service.

    ``step`` is how far the ports of this service are moved on because others were taken.
    """

    api: int | None = None
    step: int = 0

    def port(self, first: int) -> int:
        """The port of a service whose API is at ``api``; ``first`` is that of one at 8000.

        The ports of a block are rotated: each API's port of 1 to 65535 gives another one, never itself, and one of
        its own block. So a server without root gets a port that it may open. Every port is given once, so one
        service's meeting port can be another service's API: `run` looks on the nodes.
        """
        if self.api is None:
            return first
        low, high = next(block for block in BLOCKS if block[0] <= self.api <= block[1])
        size = high - low + 1
        moved = (first - FIRST) % size or 1
        return low + (self.api - low + moved + self.step) % size


def api_port(command: str, runtime: str) -> int:
    """The port that a serve command names, the last one as its engine reads it, else the engine's own."""
    return named_port(command) or API_PORTS.get(runtime, FIRST)


def named_port(command: str) -> int | None:
    """The last port that a command names, if it can be one."""
    found = [int(text) for text in PORT.findall(command)]
    return found[-1] if found and 0 < found[-1] <= BLOCKS[-1][1] else None


def port_in(arguments: Sequence[str]) -> int | None:
    """The port that arguments of the engine name."""
    return named_port(shlex.join(arguments))
