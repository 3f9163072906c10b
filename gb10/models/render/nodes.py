"""The nodes of a launch: how many its parallelism needs, where they meet, what each runs as sparkrun takes it. Pure."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gb10.models.load.model_recipe import ModelRecipe
from gb10.models.render.built_command import atlas_command, llama_command, tokenary_base
from gb10.models.render.parameters import Parameters
from gb10.models.render.rendered import Findings, RankCommand
from gb10.models.render.serve_line import appended, has_flag, is_on

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


API_PORT: Final = re.compile(r"--port[=\s]+[\"']?(\d{1,5})\b")
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
    return port_in_command(command) or API_PORTS.get(runtime, FIRST)


def port_in_command(command: str) -> int | None:
    """The last port that a command names, if it can be one."""
    found = [int(text) for text in API_PORT.findall(command)]
    return found[-1] if found and 0 < found[-1] <= BLOCKS[-1][1] else None


PORT: Final = 25000
REPLICA_PORT: Final = 13345
LLAMA_PORT: Final = 50052
LOCAL: Final = "localhost"


def check_nodes(recipe: ModelRecipe, nodes: Sequence[str], topology: Topology, found: Findings) -> tuple[str, ...]:
    """The nodes that are used, of those named; none when the launch needs several and none is named."""
    world = topology.world
    most = _number(recipe, "max_nodes")
    most = 1 if recipe.values.get("solo_only") or recipe.values.get("mode") == "solo" else most
    if most is not None and world > most:
        text = f"tp x pp x dp is {world}, and the recipe allows {most} node{'s' * (most != 1)}"
        found.stop("too-many-nodes", text, "set tensor_parallel, or change max_nodes", "defaults")
    if world > 1 and not nodes:
        text = f"the recipe needs {world} nodes (tp x pp x dp); name them for the commands of each"
        found.add("warning", "nodes-not-named", text, "add --nodes HEAD,WORKER")
        return ()
    if not topology.asked and len(nodes) > 1:
        return tuple(nodes[:most])
    if nodes and world > len(nodes):
        text = f"the recipe needs {world} nodes (tp x pp x dp), and {len(nodes)} are named"
        found.stop("too-few-nodes", text, "name more nodes, or --set tensor_parallel=N", "defaults")
    if world < len(nodes):
        text = f"the recipe needs {world} of the {len(nodes)} nodes; the others are not used"
        found.add("warning", "unused-nodes", text, "name fewer nodes, or --set tensor_parallel=N", "defaults")
    return tuple(nodes[:world]) or (LOCAL,)


def _number(recipe: ModelRecipe, key: str) -> int | None:
    value = recipe.values.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranks:
    """A launch on several hosts: its serve command, and whether that was made of the parameters (``built``)."""

    serve: str
    built: bool
    topology: Topology
    hosts: Sequence[str]
    parameters: Parameters
    meeting: Meeting


def meeting_ports(ranks: Ranks, runtime: str) -> tuple[int, ...]:
    """The ports by which these ranks meet, without those that a parameter of the recipe sets."""
    if len(ranks.hosts) < 2 or runtime not in COMMANDS:
        return ()
    if runtime == "llama-cpp":
        return (ranks.meeting.port(LLAMA_PORT),)
    if runtime != "vllm-distributed":
        return (ranks.meeting.port(PORT),)
    topology, given = ranks.topology, ranks.parameters.get("data_parallel_rpc_port")
    first = [PORT] * (topology.size > 1) + [REPLICA_PORT] * (topology.replicas > 1 and not given)
    return tuple(map(ranks.meeting.port, first))


def rank_commands(ranks: Ranks, runtime: str) -> tuple[RankCommand, ...]:
    """What each node runs. With Ray the workers only join the cluster, so the head alone has a command."""
    if not ranks.hosts:
        return ()
    if len(ranks.hosts) == 1 or runtime not in COMMANDS:
        return (RankCommand(host=ranks.hosts[0], command=ranks.serve),)
    return tuple(
        RankCommand(host=host, command=COMMANDS[runtime](ranks, rank)) for rank, host in enumerate(ranks.hosts)
    )


def _vllm(ranks: Ranks, rank: int) -> str:
    words: list[str] = []
    topology = ranks.topology
    replica, within = divmod(rank, topology.size)
    if topology.size > 1:
        words += [f"--nnodes {topology.size}", f"--node-rank {within}"]
        words += [f"--master-addr {ranks.hosts[replica * topology.size]}", f"--master-port {ranks.meeting.port(PORT)}"]
        words += ["--headless"] * (within > 0)
    if topology.replicas > 1:
        if not has_flag(ranks.serve, "--data-parallel-size"):
            words.append(f"--data-parallel-size {topology.replicas}")
        given = ranks.parameters.get("data_parallel_rpc_port")
        port = ranks.parameters.size("data_parallel_rpc_port") if given else ranks.meeting.port(REPLICA_PORT)
        words += [f"--data-parallel-rank {replica}", f"--data-parallel-address {ranks.hosts[0]}"]
        words.append(f"--data-parallel-rpc-port {port}")
    return appended(ranks.serve, *words)


def _sglang(ranks: Ranks, rank: int) -> str:
    topology = ranks.topology
    alone = topology.replicas > 1 and not topology.shared
    nodes = topology.size if alone else len(ranks.hosts)
    if nodes <= 1:
        return ranks.serve
    replica, within = divmod(rank, nodes)
    head = ranks.hosts[replica * nodes]
    return appended(
        ranks.serve, f"--dist-init-addr {head}:{ranks.meeting.port(PORT)}", f"--nnodes {nodes}", f"--node-rank {within}"
    )


def _atlas(ranks: Ranks, rank: int) -> str:
    """Only the head listens for requests; a command of the recipe's own is left as it is."""
    base = atlas_command(ranks.parameters, worker=True) if ranks.built and rank else ranks.serve
    return appended(base, *_world(ranks, rank))


def _tokenary(ranks: Ranks, rank: int) -> str:
    base = tokenary_base(ranks.parameters) if ranks.built else ranks.serve
    served = [] if rank else [f"--server --port {ranks.parameters.get('port') or 8000}"]
    return appended(base, *_world(ranks, rank), f"--tp-size {len(ranks.hosts)}", *served)


def _world(ranks: Ranks, rank: int) -> list[str]:
    size = len(ranks.hosts)
    port = ranks.meeting.port(PORT)
    return [f"--rank {rank}", f"--world-size {size}", f"--master-addr {ranks.hosts[0]}", f"--master-port {port}"]


def _llama(ranks: Ranks, rank: int) -> str:
    """The head's server is made of the parameters, whatever the recipe's command is; the others lend their GPUs."""
    port = ranks.meeting.port(LLAMA_PORT)
    if rank:
        return f"rpc-server --host 0.0.0.0 --port {port}"
    workers = ",".join(f"{host}:{port}" for host in ranks.hosts[1:])
    return appended(llama_command(ranks.parameters, remote=True), f"--rpc {workers}")


COMMANDS: Final[Mapping[str, Callable[[Ranks, int], str]]] = {
    "vllm-distributed": _vllm,
    "sglang": _sglang,
    "atlas": _atlas,
    "tokenary": _tokenary,
    "llama-cpp": _llama,
}
"""The runtimes of which each node has a command."""
