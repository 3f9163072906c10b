"""TensorRT-LLM and llama.cpp, as far as their memory is known: weights, and a cache that is asked for. Pure."""

from typing import Final

from gb10.memory.engines.budget import Budget, Problem, gib, size_of
from gb10.memory.engines.shared import (
    Machine,
    activations,
    cache_item,
    load_peak,
    load_problems,
    machine_items,
    start_peak,
    weight_items,
)
from gb10.memory.launch import Launch
from gb10.memory.model import Model

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
    peak = load_peak(model, launch, machine, size_of(own, "weights", "draft layer", "draft model"))
    return Budget(
        stage=stage,
        total=machine.total,
        items=items,
        pool=pool,
        tokens=int(pool / needs * length),
        requests=pool / needs if length else None,
        load=peak,
        start=start_peak(launch, machine, sum(item.size for item in before)),
        problems=(*_problems(machine, sum(item.size for item in items), pool, needs), *load_problems(peak, machine)),
    )


def _problems(machine: Machine, used: int, pool: int, needs: int) -> tuple[Problem, ...]:
    room = machine.total - machine.figures["reserve"].size
    if pool < needs:
        return (
            Problem(code="pool-too-small", text=f"a request of full length needs {gib(needs)}: {gib(pool)} are left"),
        )
    if used > room:
        text = f"the node would use {gib(used)} of {gib(machine.total)}; {gib(machine.total - room)} must stay free"
        return (Problem(code="share-too-large", text=text),)
    return ()
