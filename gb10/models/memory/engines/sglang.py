"""SGLang: a static share of what is free holds weights, states and the cache; the rest is for steps and graphs. Pure.

As in mem_cache/kv_cache_configurator.py of SGLang 0.5.23: cache = free after the load - free before x (1 - share).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from packaging.version import Version

from gb10.models.memory.cache import Cache, index_size
from gb10.models.memory.engines.budget import (
    GROWN,
    HOST_TIER,
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
    size_of,
    sleeping,
    weight_items,
)
from gb10.models.memory.launch import Launch
from gb10.models.memory.model import Model

FRACTION: Final = 0.88
CHUNK: Final = 8192
"""Defaults of --mem-fraction-static and --chunked-prefill-size, about, for this much memory."""
KEPT_FREE: Final = 10 << 30
"""Bytes that host pools leave free (HICACHE_HOST_MEMORY_RESERVE_BYTES)."""
NOT_SLACK: Final = 0.95
"""The part of its budget that a default ratio may fill (1 - _ALLOCATION_SLACK_FRACTION)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Pools:
    """Bytes: ``rest`` for states and cache together, ``states`` for ``slots`` sequences, ``pool`` for ``tokens``."""

    rest: int
    states: int
    slots: int | None
    pool: int
    tokens: int
    cell: float


def sglang_budget(model: Model, launch: Launch, machine: Machine, stage: int) -> Budget:
    """The budget of a node; raises UsageError when the model's cache is not known."""
    own = (*weight_items(model, launch, stage), *_second_scales(model, launch, stage))
    loaded = loaded_size(own) + size_of(own, SECOND_SCALES)
    free = machine.total - sum(item.size for item in machine_items(machine))
    share = launch.fraction or FRACTION
    cache = model.cache_on(launch, stage)
    own = (*own, *_layer_copy(model, launch, loaded))
    grown = machine.item(GROWN, "sglang_load")
    rest = round(free * share) - loaded - grown.size - draft_copies(model, launch)
    pools = _pools(cache, launch, machine, rest, _price(model, cache, launch, machine, stage))
    requests = launch.requests or 32
    rows = min(requests, 64) * (1 + (launch.drafts.tokens if launch.drafts else 0))
    work = activations(model, launch, machine, launch.batched or CHUNK, rows)
    graphs = [machine.item("CUDA graphs", "sglang_graphs")] if launch.graphs else []
    state = [cache_item("states of sequences", pools.states, model)] if cache.state else []
    tier, tier_problems = _host_tier(launch, pools, free - sum(item.size for item in own) - pools.states - pools.pool)
    pool = cache_item("KV cache", pools.pool, model)
    items = (*machine_items(machine), *own, grown, work, *graphs, *state, pool, *tier)
    length, compilers = launch.length or 0, compilers_size(launch, machine)
    return Budget(
        stage=stage,
        total=machine.total,
        items=items,
        pool=pools.pool,
        tokens=pools.tokens,
        requests=pools.tokens / length if length and model.cache != Cache() else None,
        load=load_peak(model, launch, machine, loaded),
        start=sum(item.size for item in items) + compilers,
        compilers=compilers,
        problems=(
            *_problems(launch, pools, loaded + grown.size, free),
            *tier_problems,
            *sleeping(model, launch, items),
            *over_reserve(items, machine, "headroom-too-small"),
            *load_problems(model, launch, machine, loaded),
        ),
    )


def _price(model: Model, cache: Cache, launch: Launch, machine: Machine, stage: int) -> tuple[float, int]:
    """Bytes of a token on a rank, and bytes that no token changes. The layers with a window hold fewer tokens.

    Ranks that divide the tokens keep the whole index of sparse latents (model_executor/pool_configurator.py,
    _compute_cell_size).
    """
    if model.fields is not None and cache.pages:
        from gb10.models.memory.engines.sglang_compressed import compressed_price  # noqa: PLC0415 - for DeepSeek-V4

        return compressed_price(model.fields, model.layers, launch, stage)
    of_window = launch.window_share or machine.figures["sglang_window_share"].value
    each = cache.token + of_window * cache.windowed
    whole = index_size(model.fields) * sum(one.latent for one in cache.layers) if model.fields is not None else 0
    return whole + (each - whole) / launch.sequence_ranks, 0


def _pools(cache: Cache, launch: Launch, machine: Machine, rest: int, price: tuple[float, int]) -> _Pools:
    """States and cache from what the static share leaves."""
    states, slots = 0, None
    if cache.state and rest > 0:
        slots, states = _states(cache.state, launch, machine, rest)
    cell, fixed = price
    pool = max(rest - states, 0)
    # States alone keep no token.
    tokens = max(int((pool - fixed) / cell), 0) if cell else (slots or 0) * (launch.length or 1)
    if cache == Cache():  # an encoder keeps nothing of a request
        tokens = (launch.length or 1) if rest > 0 else 0
    if launch.cache_tokens and launch.cache_tokens < tokens:
        tokens, pool = launch.cache_tokens, round(launch.cache_tokens * cell) + fixed
    return _Pools(rest=rest, states=states, slots=slots, pool=pool, tokens=tokens, cell=cell)


def slots_of_request(launch: Launch) -> int:
    """Slots for states of one request: its own, and with a prefix cache those that are kept of it, and buffers.

    SGLang 0.5.23: mem_cache/kv_cache_configurator.py, _calculate_mamba_ratio.
    """
    if launch.prefix_caching is False:
        return 1
    return 5 if launch.state_buffers else 3


def _states(each: float, launch: Launch, machine: Machine, rest: int) -> tuple[int, int]:
    """Slots for states of ``each`` bytes, and what they take with those of drafts that may be rejected: as many as
    drafts for each request that runs. Both have one slot more. Without a number that is asked for, slots and drafts
    share a part of what is left.

    SGLang 0.5.23: mem_cache/kv_cache_configurator.py, _handle_max_mamba_cache.
    """
    drafts = launch.drafts.tokens if launch.drafts else 0
    requests = launch.requests or 32
    of_request = slots_of_request(launch)
    share = launch.state_share or machine.figures["sglang_mamba_share"].value
    budget = rest * share / (1 + share)
    fitting = int((budget - each * (1 + drafts)) // (each * (1 + drafts / of_request)))
    asked = launch.states or (launch.requests if launch.prefix_caching is False else None)
    slots = asked or max(fitting, 0)
    waiting = min(requests, slots // of_request) + 1
    return slots, round((slots + 1 + waiting * drafts) * each)


ALIASED: Final = Version("0.5.12")
"""From here on the kernels' form of the scales takes the place of the files'. By the wheels of 0.5.11 and 0.5.12."""
SECOND_SCALES: Final = "scales of experts, twice"


def _second_scales(model: Model, launch: Launch, stage: int) -> list[Item]:
    """The block scales of NVFP4 experts, which older releases keep in both forms (w13_blockscale_swizzled and
    w2_blockscale_swizzled in layers/quantization/modelopt_quant.py): a byte beside each eight of weights."""
    rules = model.scheme.rules if model.scheme else ()
    experts = model.parts(launch, stage).get("experts", 0) if any(one.name == "nvfp4" for _, one in rules) else 0
    if not experts or launch.may_be_from(ALIASED):
        return []
    source = f"SGLang {launch.release} keeps the scales of NVFP4 experts as the files and as the kernels have them"
    return [Item(name=SECOND_SCALES, size=experts // 9, known="computed", source=source)]


def draft_copies(model: Model, launch: Launch) -> int:
    """Bytes of a rank that are there while the cache is sized and not when the server answers: the model's own draft
    layer has an embedding and an output of its own, which then become the model's.

    SGLang 0.5.23: models/qwen3_5_mtp.py, set_embed_and_head, called behind alloc_memory_pool in
    speculative/eagle_worker_v2.py; sgl-project/sglang#36452.
    """
    fields = model.fields
    if fields is None or launch.drafts is None or not launch.drafts.own:
        return 0
    tied = bool(fields.text.get("tie_word_embeddings", fields.config.get("tie_word_embeddings", False)))
    return (1 if tied else 2) * fields.vocabulary * fields.hidden * 2 // launch.ranks.tensor


def _layer_copy(model: Model, launch: Launch, loaded: int) -> list[Item]:
    """--cpu-offload-gb copies the weights of a layer for each of its steps (utils/offloader.py, OffloaderV1)."""
    if not launch.offloaded:
        return []
    layers = max(len(model.layers) // launch.ranks.stages, 1)
    source = "--cpu-offload-gb: the largest layer is taken for an average one (SGLang 0.5.23, utils/offloader.py)"
    return [Item(name="copy of an offloaded layer", size=loaded // layers, known="assumed", source=source)]


def _host_tier(launch: Launch, pools: _Pools, free: int) -> tuple[list[Item], list[Problem]]:
    """The host pools of the hierarchical cache, and why SGLang refuses them; ``free`` is what the node has after its
    own pools.

    SGLang 0.5.23: mem_cache/pool_host/base.py for a size (for tokens and states alike) and for a ratio, and for the 10
    GiB that stay free; mem_cache/hicache_auto_size.py for what becomes of the default ratio.
    """
    tier = launch.host_tier
    if tier is None:
        return [], []
    budget = free - KEPT_FREE
    if tier.size is not None:
        size = tier.size * (1 + bool(pools.states))
    elif tier.share is not None:
        size = min(round(tier.ratio * (pools.pool + pools.states)), round(budget * tier.share * NOT_SLACK))
    else:
        size = round(tier.ratio * (pools.pool + pools.states))
    source = (
        f"{tier.option}: SGLang 0.5.23, mem_cache/pool_host/base.py. CPU and GPU share the memory: a larger "
        "--mem-fraction-static holds as many tokens without a copy"
    )
    item = Item(name=HOST_TIER, size=max(size, 0), known="computed", source=source)
    if 0 < size <= budget:
        return [item], []
    text = (
        f"SGLang refuses the host pools: {gib(max(size, 0))} are asked, and {gib(max(budget, 0))} are free beside the "
        "10 GiB that it leaves. A smaller --mem-fraction-static gives them room, but holds fewer tokens"
    )
    return [item], [Problem(code="host-tier", text=text)]


def _problems(launch: Launch, pools: _Pools, loaded: int, free: int) -> Sequence[Problem]:
    if pools.rest <= 0 or pools.tokens <= 0:
        text = f"weights take {gib(loaded)} of a static share of {gib(loaded + pools.rest)} ({gib(free)} are free)"
        return (Problem(code="weights-too-large", text=f"{text}: nothing is left for the KV cache"),)
    if launch.length and pools.tokens < launch.length:
        text = f"the KV cache holds {pools.tokens} tokens: a request of {launch.length} does not fit"
        return (Problem(code="pool-too-small", text=text, warning=True),)
    if pools.slots is not None and pools.slots < slots_of_request(launch):
        text = f"the states of sequences have {pools.slots} slots: not one request fits"
        return (Problem(code="pool-too-small", text=text),)
    return ()
