"""TensorRT-LLM and llama.cpp, as far as their memory is known: weights, and a cache that is asked for. Pure."""

from collections.abc import Sequence
from typing import Final

from gb10.models.memory.engines.budget import (
    Budget,
    Item,
    Machine,
    Problem,
    activations,
    cache_item,
    compilers_size,
    gib,
    load_peak,
    load_problems,
    loaded_size,
    machine_items,
    over_reserve,
    weight_items,
)
from gb10.models.memory.launch import Launch
from gb10.models.memory.model import Model

FRACTION: Final = 0.9
"""Default of free_gpu_memory_fraction: of what is free after the load."""
BATCHED: Final = 8192


def other_budget(model: Model, launch: Launch, machine: Machine, stage: int) -> Budget:
    """The budget of a node. llama.cpp takes the whole context at its start, TensorRT-LLM a share of what is free."""
    own = weight_items(model, launch, stage)
    work = activations(model, launch, machine, launch.batched or BATCHED, min(launch.requests or 16, 64))
    before = (*machine_items(machine), *own, work)
    free = machine.total - sum(item.size for item in before)
    cache, length = model.cache_on(launch, stage), launch.length or 0
    needs = max(cache.of_request(length), 1)
    pool = needs if launch.engine == "llama-cpp" else max(round(free * (launch.fraction or FRACTION)), 0)
    items = (*before, cache_item("KV cache", pool, model))
    weights, compilers = loaded_size(own), compilers_size(launch, machine)
    return Budget(
        stage=stage,
        total=machine.total,
        items=items,
        pool=pool,
        tokens=int(pool / needs * length),
        requests=pool / needs if length else None,
        load=load_peak(model, launch, machine, weights),
        start=sum(item.size for item in before) + compilers,
        compilers=compilers,
        problems=(*_problems(items, machine, pool, needs), *load_problems(model, launch, machine, weights)),
    )


def _problems(items: Sequence[Item], machine: Machine, pool: int, needs: int) -> tuple[Problem, ...]:
    if pool < needs:
        return (
            Problem(code="pool-too-small", text=f"a request of full length needs {gib(needs)}: {gib(pool)} are left"),
        )
    return over_reserve(items, machine, "share-too-large")
