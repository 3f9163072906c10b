"""The nodes of a launch as sparkrun takes them, and the command of each. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gb10.models.load.model_recipe import ModelRecipe
from gb10.models.render.built_command import atlas_command, llama_command, tokenary_base
from gb10.models.render.parameters import Parameters
from gb10.models.render.rendered import Findings, RankCommand
from gb10.models.render.serve_line import appended, has_flag
from gb10.models.render.topology import Meeting, Topology

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
