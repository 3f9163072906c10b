"""The nodes of a launch as sparkrun takes them, and the command of each. Pure."""

from collections.abc import Sequence
from typing import Final

from gb10.models.load.model_recipe import ModelRecipe
from gb10.models.render.findings import Findings
from gb10.models.render.parameters import Parameters
from gb10.models.render.rendered import RankCommand
from gb10.models.render.serve_line import appended, has_flag
from gb10.models.render.topology import Topology

PORT: Final = 25000
REPLICA_PORT: Final = 13345
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


def rank_commands(
    serve: str, runtime: str, topology: Topology, hosts: Sequence[str], parameters: Parameters
) -> tuple[RankCommand, ...]:
    """What each node runs. With Ray the workers only join the cluster, so the head alone has a command."""
    if not hosts:
        return ()
    if topology.world == 1 or runtime not in ("vllm-distributed", "sglang"):
        return (RankCommand(host=hosts[0], command=serve),)
    tail_of = _vllm_tail if runtime == "vllm-distributed" else _sglang_tail
    tails = [tail_of(serve, topology, hosts, rank, parameters) for rank in range(len(hosts))]
    commands = (appended(serve, *tail) if tail else serve for tail in tails)
    return tuple(RankCommand(host=host, command=one) for host, one in zip(hosts, commands, strict=True))


def _vllm_tail(serve: str, topology: Topology, hosts: Sequence[str], rank: int, parameters: Parameters) -> list[str]:
    words: list[str] = []
    replica, within = divmod(rank, topology.size)
    if topology.size > 1:
        head = hosts[replica * topology.size]
        words += [
            f"--nnodes {topology.size}",
            f"--node-rank {within}",
            f"--master-addr {head}",
            f"--master-port {PORT}",
        ]
        words += ["--headless"] * (within > 0)
    if topology.replicas > 1:
        if not has_flag(serve, "--data-parallel-size"):
            words.append(f"--data-parallel-size {topology.replicas}")
        port = parameters.size("data_parallel_rpc_port") if parameters.get("data_parallel_rpc_port") else REPLICA_PORT
        words += [f"--data-parallel-rank {replica}", f"--data-parallel-address {hosts[0]}"]
        words.append(f"--data-parallel-rpc-port {port}")
    return words


def _sglang_tail(serve: str, topology: Topology, hosts: Sequence[str], rank: int, parameters: Parameters) -> list[str]:
    alone = topology.replicas > 1 and not topology.shared
    nodes = topology.size if alone else topology.world
    if nodes <= 1:
        return []
    replica, within = divmod(rank, nodes)
    return [f"--dist-init-addr {hosts[replica * nodes]}:{PORT}", f"--nnodes {nodes}", f"--node-rank {within}"]
