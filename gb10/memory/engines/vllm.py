"""vLLM: a share of all memory holds weights, activations, graphs and the cache; the cache gets what is left. Pure.

As in v1/worker/gpu_worker.py of vLLM 0.33: since 0.21 the share covers the CUDA graphs, too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

from packaging.version import InvalidVersion, Version

from gb10.memory.engines.budget import Budget, Item, Problem, gib, size_of
from gb10.memory.engines.shared import (
    Machine,
    activations,
    cache_item,
    load_peak,
    load_problems,
    machine_items,
    request_size,
    start_peak,
    weight_items,
)
from gb10.memory.launch import Launch
from gb10.memory.model import Model

FRACTION: Final = 0.92
"""Default of --gpu-memory-utilization."""
BATCHED: Final = 8192
REQUESTS: Final = 1024
"""Defaults of an API server with 70 GiB and more."""
GRAPHS_COUNTED: Final = Version("0.21")
LARGEST_GRAPH: Final = 512
LAYERS: Final = 48
"""Of a model whose layers are not known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Share:
    """``asked`` bytes of the machine, ``fixed`` of them beside the cache; a request of full length ``needs`` some."""

    asked: int
    fixed: int
    pool: int
    needs: int
    length: int


def vllm_budget(model: Model, launch: Launch, machine: Machine, stage: int) -> Budget:
    """The budget of a node; raises UsageError when the model's cache is not known."""
    batched = launch.batched or BATCHED
    requests = min(launch.requests or REQUESTS, batched)
    own = weight_items(model, launch, stage)
    work = activations(model, launch, machine, batched, requests)
    graphs = [machine.item("CUDA graphs", _graph_figure(model), graph_bytes(model, launch, machine, requests))]
    counted = graphs if launch.graphs and _counts_graphs(launch.release) else []
    late = graphs if launch.graphs and not counted else []
    network = [machine.item("buffers of the network", "vllm_network")] if launch.nodes > 1 else []
    inside = [*own, work, *counted, machine.item("context and workspaces", "vllm_share"), *network]
    share = _share(model, launch, machine, stage, sum(item.size for item in inside))
    outside = machine_items(machine)
    items = (*outside, *inside, *late, cache_item("KV cache", share.pool, model))
    loaded = load_peak(model, launch, machine, size_of(own, "weights", "draft layer", "draft model"))
    return Budget(
        stage=stage,
        total=machine.total,
        items=items,
        pool=max(share.pool, 0),
        tokens=max(int(share.pool / share.needs * share.length), 0),
        requests=max(share.pool / share.needs, 0.0),
        load=loaded,
        start=start_peak(launch, machine, sum(item.size for item in (*outside, *own, work))),
        problems=(
            *_problems(share, machine),
            *_overcommitted(items, machine),
            *load_problems(loaded, machine),
        ),
    )


def _share(model: Model, launch: Launch, machine: Machine, stage: int, fixed: int) -> _Share:
    """What the share of memory leaves for the cache; --kv-cache-memory-bytes takes the share's place."""
    length = launch.length or _longest(model)
    asked = ceil((launch.fraction or FRACTION) * machine.total)
    pool = asked - fixed if launch.cache_size is None else launch.cache_size
    needs = request_size(model.cache_on(launch, stage), launch, length, launch.batched or BATCHED)
    return _Share(asked=max(asked, fixed + pool), fixed=fixed, pool=pool, needs=max(needs, 1), length=length)


def _problems(share: _Share, machine: Machine) -> Sequence[Problem]:
    """What vLLM itself finds: too little free at the start, no pool, or a pool for less than one request."""
    free = machine.total - machine.figures["system"].size - machine.services
    if share.pool <= 0:
        text = f"weights and activations take {gib(share.fixed)}, and the share is {gib(share.asked)}"
        return (Problem(code="weights-too-large", text=f"{text}: nothing is left for the KV cache"),)
    if share.asked > free:
        text = f"vLLM asks for {gib(share.asked)} at its start, and {gib(free)} are free"
        return (Problem(code="share-too-large", text=text),)
    if share.pool < share.needs:
        text = f"one request of {share.length} tokens needs {gib(share.needs)} of KV cache"
        return (Problem(code="pool-too-small", text=f"{text}, and {gib(share.pool)} are left"),)
    return ()


def _overcommitted(items: Sequence[Item], machine: Machine) -> Sequence[Problem]:
    """What vLLM does not see: the rest of the machine."""
    used, room = sum(item.size for item in items), machine.total - machine.figures["reserve"].size
    if used <= room:
        return ()
    text = f"the node would use {gib(used)} of {gib(machine.total)}; {gib(machine.total - room)} must stay free"
    return (Problem(code="share-too-large", text=text),)


def graph_bytes(model: Model, launch: Launch, machine: Machine, requests: int) -> int:
    """CUDA graphs: as many as batch sizes, in pieces and whole, each for all layers of the node."""
    drafts = 1 + (launch.drafts.tokens if launch.drafts else 0)
    largest = launch.graph_batch or min(2 * requests * drafts, LARGEST_GRAPH)
    pieces = graph_count(largest)
    whole = graph_count(min(requests * drafts, largest))
    layers = (len(model.layers) or LAYERS) / launch.ranks.stages
    return ceil((pieces + whole) * layers * machine.figures[_graph_figure(model)].value * (1 << 20))


def graph_count(largest: int) -> int:
    """Batch sizes up to the largest: 1, 2, 4, then each 8th to 256, then each 16th."""
    return sum(size <= largest for size in (1, 2, 4, *range(8, 256, 8), *range(256, LARGEST_GRAPH + 1, 16)))


def _graph_figure(model: Model) -> str:
    return "vllm_graph_mib" if model.fields is None or model.fields.experts else "vllm_graph_dense_mib"


def _counts_graphs(release: str) -> bool:
    try:
        return Version(release) >= GRAPHS_COUNTED
    except InvalidVersion:
        return True


def _longest(model: Model) -> int:
    return model.fields.number("max_position_embeddings", default=32768, largest=1 << 24) if model.fields else 32768
