"""vLLM: a share of all memory holds weights, activations, graphs and the cache; the cache gets what is left. Pure.

As in v1/worker/gpu_worker.py of vLLM 0.33. The share covers the CUDA graphs from 0.21 on by its own words; the stock
0.19.2rc1 and 0.20.0 that people ran on Sparks covered them, too.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, lcm
from typing import Final

from packaging.version import Version

from gb10.models.memory.cache import Cache, CacheLayer, PagedLayer
from gb10.models.memory.engines.budget import (
    HOST_TIER,
    OFFLOADED,
    ROUNDED,
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

BLOCK: Final = 16
"""Tokens of a page, unless an option or a state asks for more."""
LATENT_BLOCK: Final = 128
"""What a page of latent heads beside states is a multiple of."""
CLOSE: Final = 1.5
"""Kinds whose numbers of layers are closer than this share groups of the larger number."""
HYBRID_PREFIXES: Final = Version("0.28.0")
"""From here on models with states cache prefixes unless they are told not to (vllm-project/vllm#50991); before, only
with --enable-prefix-caching: engine/arg_utils.py of 0.26.0 and 0.29.0."""
CHECKPOINTS: Final = Version("0.33")
"""From here on a prefill with prefix caching keeps a third state; which release was the first was not looked at."""
TWO_STEPS: Final = Version("0.26")
"""From here on a window keeps the tokens of each step in flight: two, since steps are scheduled ahead."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Kind:
    """Layers of one kind: tokens of a page (0 for a state) and bytes of a page."""

    layer: CacheLayer
    count: int
    block: int
    page: float


def request_bytes(cache: Cache, launch: Launch, length: int, batched: int) -> int:
    """Bytes of the pages that one request of ``length`` tokens takes."""
    if cache.pages:
        return _packed_bytes(cache.pages, launch, length, batched)
    kinds = _with_equal_pages(_kinds(cache, launch)) if cache.layers else ()
    if not kinds:
        drafts = launch.drafts.tokens if launch.drafts else 0
        return cache.of_request(
            length, ahead=min(batched, length), copies=1 + drafts, sequence_ranks=launch.sequence_ranks
        )
    group = _group(kinds)
    pages = sum(ceil(kind.count / group) * _pages(kind, launch, length, batched) for kind in kinds)
    return ceil(pages * group * kinds[0].page)


def _packed_bytes(pages: tuple[PagedLayer, ...], launch: Launch, length: int, batched: int) -> int:
    """DeepSeek-V4: layers that keep tokens alike are a group, or several with as many layers as the others have; every
    block of the pool is as large as the largest group's pages, whoever takes it. So windows and states, which need
    small blocks, cost a request gigabytes whatever its length (tonyd2wild/DeepSeek-v4-Flash-Vision-Exp#57).

    vLLM 0.33.0: v1/core/kv_cache_planning.py, _get_packed_kv_cache_groups; v1/kv_cache_interface.py.
    """
    buckets: dict[PagedLayer, Counter[int]] = {}
    for page in pages:
        buckets.setdefault(replace(page, size=0), Counter())[page.size] += 1
    balanced = {kind: max(sizes.values()) for kind, sizes in buckets.items() if len(set(sizes.values())) == 1}
    least = max((count for kind, count in balanced.items() if len(buckets[kind]) > 1), default=0)
    widths = range(least, max(balanced.values(), default=0) + 1) if least else ()
    repeats = min(widths, key=lambda width: (sum(-count % width for count in balanced.values()), -width), default=0)
    groups = {kind: ceil(balanced[kind] / repeats) if repeats and kind in balanced else 1 for kind in buckets}
    # Without such a pattern, windows and rings may be split down to a layer a group: they never make a block larger.
    apart = {kind for kind in buckets if kind.ring or (kind.window and not repeats)}
    block = max(
        sum(size * (1 if kind in apart else ceil(count / groups[kind])) for size, count in sizes.items())
        for kind, sizes in buckets.items()
    )
    groups |= {kind: ceil(buckets[kind].total() / (block // max(buckets[kind]))) for kind in apart}
    return block * sum(groups[kind] * _packed_pages(kind, launch, length, batched) for kind in buckets)


def _packed_pages(kind: PagedLayer, launch: Launch, length: int, batched: int) -> int:
    """Blocks that a group of such layers takes for one request."""
    if kind.ring:
        return 1
    if not kind.window:
        return ceil(length / kind.block)
    return ceil(min(kind.window - 1 + batched * _steps(launch), length) / kind.block) + 1


def padding_share(cache: Cache, launch: Launch) -> float:
    """The share of the pool that padding layers may waste; 0 without them."""
    kinds = _kinds(cache, launch) if cache.layers else ()
    if len(kinds) < 2:
        return 0.0
    group = _group(kinds)
    return max((ceil(kind.count / group) * group - kind.count) / kind.count for kind in kinds)


def _group(kinds: Sequence[_Kind]) -> int:
    """Layers of a group."""
    fewest, most = min(kind.count for kind in kinds), max(kind.count for kind in kinds)
    return most if most < fewest * CLOSE else fewest


def _kinds(cache: Cache, launch: Launch) -> tuple[_Kind, ...]:
    """The kinds of layers, each with its own page: a page of tokens is as large as a state at least."""
    drafts = launch.drafts.tokens if launch.drafts else 0
    counts = Counter(cache.layers)
    states = [layer.size + drafts * layer.step for layer in counts if layer.kind == "state"]
    heads = [layer for layer in counts if layer.kind != "state"]
    block = launch.block or BLOCK
    if states and heads:
        each = max(layer.size for layer in heads)
        least = max(block, LATENT_BLOCK) if any(layer.latent for layer in heads) else block
        least = lcm(least, *(layer.checkpoint for layer in counts if _keeps_checkpoint(layer, launch)))
        block = max(block, least * ceil(max(states) / (least * each)))
    return tuple(
        _Kind(layer=layer, count=count, block=0, page=layer.size + drafts * layer.step)
        if layer.kind == "state"
        else _Kind(layer=layer, count=count, block=block, page=layer.size * block)
        for layer, count in counts.items()
    )


def _with_equal_pages(kinds: tuple[_Kind, ...]) -> tuple[_Kind, ...]:
    """Smaller pages take as many tokens more as fit whole, else they are padded."""
    largest = max((kind.page for kind in kinds), default=0.0)
    return tuple(
        replace(
            kind,
            page=largest,
            block=kind.block * int(largest / kind.page) if kind.page and largest % kind.page == 0 else kind.block,
        )
        for kind in kinds
    )


def _pages(kind: _Kind, launch: Launch, length: int, batched: int) -> int:
    """Pages of one layer for one request. Decode context parallelism divides tokens of full attention, no states."""
    layer = kind.layer
    if layer.kind == "state":
        prefixes = launch.may_be_from(HYBRID_PREFIXES) if launch.prefix_caching is None else launch.prefix_caching
        kept = 2 + _keeps_checkpoint(layer, launch) if prefixes else 1
        return kept + (launch.drafts.tokens if launch.drafts else 0)
    flying = batched * _steps(launch)
    if layer.kind == "window":
        return ceil(min(layer.window - 1 + flying, length) / kind.block) + 1
    if layer.kind == "chunk":
        return ceil(min(layer.window + flying, length) / kind.block)
    return ceil(length / (kind.block * launch.sequence_ranks))


def _steps(launch: Launch) -> int:
    """Steps that are scheduled and not yet settled."""
    if not launch.may_be_from(TWO_STEPS):
        return 1
    return launch.ranks.stages if launch.ranks.stages > 1 else 1 + launch.scheduled_ahead


def _keeps_checkpoint(layer: CacheLayer, launch: Launch) -> bool:
    return bool(layer.checkpoint) and launch.may_be_from(CHECKPOINTS)


FRACTION: Final = 0.92
"""Default of --gpu-memory-utilization."""
BATCHED: Final = 2048
REQUESTS: Final = 256
"""Defaults on a GB10, which vLLM counts among small GPUs in spite of its memory (engine/arg_utils.py)."""
GRAPHS_COUNTED: Final = Version("0.19.2rc1")
LARGEST_GRAPH: Final = 512
LAYERS: Final = 48
"""Of a model whose layers are not known."""
ENCODER_TOKENS: Final = 4096
"""As many tokens of pictures are tried at most: logs with 32,768 and 65,536 batched tokens show no more."""
PICTURE_CACHE: Final = 4.0
"""Default of --mm-processor-cache-gb."""
UNIFORM_DRAFTS: Final = Version("0.24")
"""Before, FlashInfer's attention had no whole graphs for steps with drafts."""


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
    tokens = launch.drafts.tokens if launch.drafts else 0
    work = activations(model, launch, machine, batched, requests * (1 + bool(tokens)))
    drafted = activations(model, launch, machine, batched, requests * (1 + tokens)).size - work.size
    graphs = [machine.item("CUDA graphs", _graph_figure(model), graph_bytes(model, launch, machine, requests))]
    counts = graphs if launch.graphs and launch.may_be_from(GRAPHS_COUNTED) else []
    late = [*(graphs if launch.graphs and not counts else []), *_drafted(drafted)]
    inside = [*own, work, *counts, *_workspaces(model, launch, machine, batched, work.size)]
    share = _share(model, launch, machine, stage, sum(item.size for item in inside))
    outside = machine_items(machine)
    pool = cache_item("KV cache", share.pool, model)
    items = (*outside, *inside, *late, pool, *_host_tier(model, launch, stage), *_rounding(model, launch, own))
    weights, compilers = loaded_size(own), _compilers(model, launch, machine)
    before = sum(item.size for item in (*outside, *own, work))
    # What system and processes may take less: at 0.95 launches had 6.1 GiB for both, and ran.
    figures = machine.figures
    return Budget(
        stage=stage,
        total=machine.total,
        items=items,
        pool=max(share.pool, 0),
        tokens=max(int(share.pool / share.needs * share.length), 0),
        requests=None if model.cache == Cache() else max(share.pool / share.needs, 0.0),
        load=load_peak(model, launch, machine, weights),
        start=before + compilers,
        compilers=compilers,
        problems=(
            *_problems(share, launch, machine),
            *_few_states(model, launch, stage, share),
            *over_reserve(
                items,
                machine,
                "share-too-large",
                spare=figures["system"].size - figures["system_least"].size + figures["processes"].size,
            ),
            *_padding_note(model, launch, stage),
            *_prefill_problem(model, launch, machine, items, share.length),
            *_context_problems(model, launch),
            *_cache_type_problem(launch),
            *sleeping(model, launch, items),
            *_pictures(model, launch),
            *_compile_jobs(model, launch, machine, before),
            *load_problems(model, launch, machine, weights),
        ),
    )


def _workspaces(model: Model, launch: Launch, machine: Machine, batched: int, work: int) -> list[Item]:
    """What the engine takes beside weights, steps and graphs. The trial at the start runs encoder, step and sampler
    one after the other, so only what the encoder takes beyond ``work`` counts (profile_run in
    v1/worker/gpu_model_runner.py of 0.33.0)."""
    items = [machine.item("context and workspaces", "vllm_share")]
    if launch.pictures and not launch.text_only and model.sees:
        tried = min(batched, ENCODER_TOKENS) * machine.figures["vllm_encoder_mib"].value
        items.append(machine.item("trial of the encoder", "vllm_encoder_mib", max(round(tried * (1 << 20)) - work, 0)))
    if launch.drafts:
        items.append(machine.item("workspaces of the drafts", "vllm_drafts"))
    if launch.drafts and launch.drafts.reads and model.fields is not None:
        # Of each layer, and all side by side, in two bytes: combine_hidden_states in v1/spec_decode of 0.33.0.
        read = 2 * 2 * launch.drafts.reads * model.fields.hidden * batched
        source = f"states of {launch.drafts.reads} layers of a step that the drafts read (v1/spec_decode of 0.33.0)"
        items.append(Item(name="states for the drafts", size=read, known="computed", source=source))
    if launch.nodes > 1:
        items.append(machine.item("buffers of the network", "vllm_network"))
        if launch.loader == "fastsafetensors":
            items.append(machine.item("left by the loader", "vllm_loader_left"))
    return items


SHARED_REGION: Final = Version("0.27")
"""From here on the tier is a region of exactly its size (#50094, merged behind 0.26.0). Before, it was a pinned tensor
for each tensor of the cache: as many as a group of layers has."""
PINNED_TENSORS: Final = ("--kv-offloading-size", "--kv-transfer-config cpu_bytes_to_use")
"""The tiers of which this is so: SimpleCPUOffloadConnector registers memory of its own."""


def _host_tier(model: Model, launch: Launch, stage: int) -> list[Item]:
    """The region of /dev/shm that vLLM's offloading connector fills with pages of the cache, on each node its part.

    vLLM 0.33.0: v1/kv_offload/cpu/spec.py and shared_offload_region.py divide the whole over all ranks, and each node's
    /dev/shm must have room for the whole.
    """
    tier = launch.host_tier
    if tier is None or tier.size is None:
        return []
    if tier.option in PINNED_TENSORS and not launch.may_be_from(SHARED_REGION):
        from gb10.models.memory.engines.pinned import pinned_size  # noqa: PLC0415 - for such a tier

        cache = model.cache_on(launch, stage)
        kinds = _kinds(cache, launch) if cache.layers else ()
        tensors = _group(kinds) if kinds else max(len(cache.pages), 1)  # layers of several kinds share a group's
        size = tensors * pinned_size(tier.size // tensors)
        source = (
            f"{tier.option}: {gib(tier.size)} on this node in {tensors} pinned tensors, each of which takes up to "
            "twice its size before vLLM 0.27 (vllm-project/vllm#53042, #48436; mended by #50094)"
        )
        return [Item(name=HOST_TIER, size=size, known="computed", source=source)]
    whole = tier.size * launch.ranks.tensor * launch.ranks.stages * launch.prefill_ranks
    source = (
        f"{tier.option}: {gib(whole)} in all, divided over the ranks, and a /dev/shm of as much on each node (vLLM "
        "0.33.0, v1/kv_offload/cpu). CPU and GPU share the memory: a larger cache holds as many tokens without a copy"
    )
    return [Item(name=HOST_TIER, size=tier.size, known="computed", source=source)]


def _rounding(model: Model, launch: Launch, own: Sequence[Item]) -> list[Item]:
    """What --cpu-offload-gb takes beyond what it is told: vLLM 0.33.0 pins each tensor, and counts its own bytes
    (model_executor/offloader/uva.py)."""
    moved = size_of(own, OFFLOADED)
    if not moved:
        return []
    from gb10.models.memory.engines.pinned import share_of_weights  # noqa: PLC0415 - for weights in host memory

    more = ceil(moved * (share_of_weights(model, launch.ranks) - 1))
    if not more:
        return []
    source = "each offloaded tensor takes a power of two of host memory (vllm-project/vllm#56410)"
    return [Item(name=ROUNDED, size=more, known="computed", source=source)]


def _drafted(size: int) -> list[Item]:
    """The trial at the start has two rows of logits a request, a step with drafts one for each draft, too: the rest is
    beside the share (v1/worker/gpu_model_runner.py of 0.33.0, _dummy_sampler_run)."""
    source = "rows that vLLM's trial at its start does not have: v1/worker/gpu_model_runner.py of 0.33.0"
    return [Item(name="logits of drafts", size=size, known="computed", source=source)] if size > 0 else []


def _context_problems(model: Model, launch: Launch) -> Sequence[Problem]:
    """What vLLM refuses of context parallelism; a warning where the engine is a fork.

    vLLM 0.33.0: config/parallel.py and config/model.py for the numbers of ranks; v1/core/kv_cache_coordinator.py for
    the kinds of layers.
    """
    ranks, shared, more = launch.ranks.tensor, launch.sequence_ranks, launch.prefill_ranks
    if shared == 1 and more == 1:
        return ()
    kinds = {layer.mixer for layer in model.layers}
    keys = model.fields.kv_heads if model.fields and not kinds & {"latent", "compressed"} else 0
    refused = kinds - {"full", "latent", "none", *(("delta", "kimi-delta", "mamba", "conv") if more == 1 else ())}
    texts = []
    if more == 1 and ranks % shared:
        texts.append(f"{ranks} tensor ranks do not divide into {shared}")
    if more > 1 and shared not in (1, more, ranks * more):
        texts.append(f"with {more} prefill ranks it is 1, {more} or {ranks * more}, not {shared}")
    if shared > 1 and keys and ranks // keys < shared:
        texts.append(f"{ranks} ranks hold {keys} key heads, so at most {max(ranks // keys, 1)} share the same ones")
    if refused:
        texts.append(f"layers of the kind {', '.join(sorted(refused))} cannot be divided")
    if not texts:
        return ()
    text = f"vLLM refuses this context parallelism: {'; '.join(texts)}"
    return (Problem(code="context-parallel", text=text, warning=launch.fork),)


def _cache_type_problem(launch: Launch) -> Sequence[Problem]:
    """nvfp4_ds_mla: both kernels of vLLM 0.33.0 that read it are for capability 10 (backends/mla/flashmla_sparse.py,
    models/deepseek_v41/sparse_mla.py)."""
    if launch.cache_type != "nvfp4_ds_mla":
        return ()
    text = "vLLM 0.33.0 has kernels for the KV cache type nvfp4_ds_mla on capability 10 alone: a GB10 needs a fork's"
    return (Problem(code="cache-type", text=text, warning=True),)


def _pictures(model: Model, launch: Launch) -> Sequence[Problem]:
    """The cache of prepared pictures, which fills as requests come: once in each process (config/multimodal.py)."""
    each = PICTURE_CACHE if launch.picture_cache is None else launch.picture_cache
    if not each or not launch.pictures or launch.text_only or not model.sees:
        return ()
    text = (
        f"prepared pictures may take {2 * each:g} GiB more on the first node as requests come: "
        "--mm-processor-cache-gb in the front end and in the engine"
    )
    return (Problem(code="pictures", text=text, warning=True),)


CPUS: Final = 20
FULL: Final = 0.9
"""Of the memory: with 112 GiB in use a Spark hung (vllm-project/vllm#46307)."""


MOST_JOBS: Final = 8
"""That are advised: more are hardly faster, and nearer to the end of the memory."""


def _expert_jobs(model: Model, launch: Launch) -> int:
    """Jobs that compile FlashInfer's kernels for experts while vLLM profiles, outside of its share; 0 where none does.

    vLLM 0.33.0 takes them for experts of 16 bits and of NVFP4 (model_executor/layers/fused_moe/oracle). Our images hold
    them compiled.
    """
    fields, rules = model.fields, model.scheme.rules if model.scheme else ()
    plain = not rules or any(one.name == "nvfp4" for _, one in rules)
    if launch.own_image or fields is None or not fields.experts or not plain:
        return 0
    if launch.experts != "auto" and "flashinfer" not in launch.experts:
        return 0
    return launch.jobs or CPUS


def _compilers(model: Model, launch: Launch, machine: Machine) -> int:
    """What a first start compiles with: the jobs for experts, and never less than torch's and Triton's compilers."""
    jobs = _expert_jobs(model, launch)
    return _jobs_size(machine, jobs) if jobs else compilers_size(launch, machine)


def _jobs_size(machine: Machine, jobs: int) -> int:
    return max(jobs * machine.figures["compile_job"].size, machine.figures["first_start"].size)


def _compile_jobs(model: Model, launch: Launch, machine: Machine, before: int) -> Sequence[Problem]:
    """Too many jobs for what the weights leave, and how many would fit, if any."""
    jobs, available = _expert_jobs(model, launch), FULL * machine.total - before
    if not jobs or _jobs_size(machine, jobs) < available:
        return ()
    text = (
        f"a first start may have {gib(before + _jobs_size(machine, jobs))} of {gib(machine.total)} in use: {jobs} "
        f"job{'s' * (jobs > 1)} compile{'s' * (jobs == 1)} FlashInfer's kernels for experts beside the weights, "
        "outside of the share (vllm-project/vllm#46307)"
    )
    fewer = next((few for few in range(MOST_JOBS, 0, -1) if _jobs_size(machine, few) < available), None)
    if fewer is not None:
        text = f"{text}; MAX_JOBS={fewer} in `env` takes {gib(before + _jobs_size(machine, fewer))}"
    return (Problem(code="compile-jobs", text=text, warning=True),)


def _share(model: Model, launch: Launch, machine: Machine, stage: int, fixed: int) -> _Share:
    """What the share of memory leaves for the cache; --kv-cache-memory-bytes takes the share's place."""
    length = launch.length or (
        model.fields.number("max_position_embeddings", default=32768, largest=1 << 24) if model.fields else 32768
    )
    asked = ceil((launch.fraction or FRACTION) * machine.total)
    pool = asked - fixed if launch.cache_size is None else launch.cache_size
    cache = model.cache_on(launch, stage)
    if cache == Cache() and pool > 0:  # of an encoder: vLLM reserves no cache (v1/core/kv_cache_utils.py)
        pool = 1
    needs = request_bytes(cache, launch, length, launch.batched or BATCHED)
    return _Share(asked=max(asked, fixed + pool), fixed=fixed, pool=pool, needs=max(needs, 1), length=length)


def _problems(share: _Share, launch: Launch, machine: Machine) -> Sequence[Problem]:
    """What vLLM itself finds: too little free at the start, no pool, or a pool for less than one request."""
    free = machine.total - machine.figures["system_least"].size - machine.services
    if share.pool <= 0:
        text = f"weights and activations take {gib(share.fixed)}, and the share is {gib(share.asked)}"
        return (Problem(code="weights-too-large", text=f"{text}: nothing is left for the KV cache"),)
    if share.asked > free and launch.cache_size is None:
        text = f"vLLM asks for {gib(share.asked)} at its start, and at most {gib(free)} are free"
        return (Problem(code="share-too-large", text=text),)
    if share.pool < share.needs:
        text = f"one request of {share.length} tokens needs {gib(share.needs)} of KV cache"
        return (Problem(code="pool-too-small", text=f"{text}, and {gib(share.pool)} are left"),)
    return ()


STATES_COUNTED: Final = Version("0.26")
"""Since this release at the latest vLLM refuses to capture whole graphs for more requests than the pool has states: a
report of 0.26.0, and config/compilation.py of 0.30.0 and 0.33.0."""


def _few_states(model: Model, launch: Launch, stage: int, share: _Share) -> Sequence[Problem]:
    """A model with states: each block of the pool holds a layer's group of them for one request, and whole graphs are
    captured for all requests that may run. With drafts the default of these is lower."""
    kept = model.cache_on(launch, stage)
    if not any(layer.kind == "state" for layer in kept.layers) or not launch.whole_graphs:
        return ()
    kinds = _with_equal_pages(_kinds(kept, launch))
    blocks = int(share.pool / (_group(kinds) * kinds[0].page))
    wanted = launch.requests or (0 if launch.drafts else REQUESTS)
    if not 0 < blocks < wanted or not launch.may_be_from(STATES_COUNTED):
        return ()
    text = f"the cache has {blocks} states, and {wanted} requests may run: vLLM refuses; --max-num-seqs {blocks} fits"
    return (Problem(code="pool-too-small", text=text),)


INDEXER_LOGITS: Final = "VLLM_SPARSE_INDEXER_MAX_LOGITS_MB"
"""vLLM's variable for the logits of a sparse indexer, 512 MiB by default (vllm/envs.py)."""
FEW_LOGITS: Final = 64
"""MiB that ended the growth on two Sparks: vllm-project/vllm#55569."""


def prefill_growth(model: Model, launch: Launch, length: int, machine: Machine) -> int:
    """Bytes that a prompt of ``length`` tokens leaves with PyTorch's allocator; 0 for a model without a sparse indexer.

    The indexer's logits are tokens of a step x (compressed) tokens so far x 4 bytes, at most the budget. They have a
    new size in each step, so no block is used again: vllm-project/vllm#55569, where 115k tokens of GLM-5.3-Flash
    worked and 231k ended the host, and #58068.
    """
    fields = model.fields
    if fields is None or not fields.sparse:
        return 0
    ratio = 4 if fields.kind == "deepseek_v4" else 1
    ratio = fields.number("index_kpool", "indexer_compress_ratio", default=ratio, largest=4096) or 1
    budget = (launch.indexer_logits or machine.figures["vllm_indexer_mib"].value) * (1 << 20)
    batched = launch.batched or BATCHED
    steps, each = ceil(length / batched), 4.0 * batched * batched / ratio  # so much more in each step, up to the budget
    growing = min(steps, int(budget / each))
    found = each * growing * (growing + 1) / 2 + (steps - growing) * budget
    return max(round(found - budget), 0)  # the start has tried one


def _prefill_problem(
    model: Model, launch: Launch, machine: Machine, items: Sequence[Item], length: int
) -> Sequence[Problem]:
    """The longest prompt, where what it leaves behind does not fit beside the rest."""
    more = prefill_growth(model, launch, length, machine)
    spare = machine.total - sum(item.size for item in items)
    if more <= max(spare, 0):
        return ()
    text = (
        f"a prompt of {length} tokens takes up to {gib(more)} beside the cache, and {gib(max(spare, 0))} are left: the "
        "logits of the sparse indexer have another size in each step (vllm-project/vllm#55569)"
    )
    less = prefill_growth(model, replace(launch, indexer_logits=FEW_LOGITS), length, machine)
    if less < more:
        text = f"{text}; with {INDEXER_LOGITS}={FEW_LOGITS} in `env` it takes {gib(less)}"
    return (Problem(code="prefill-grows", text=text, warning=True),)


def _padding_note(model: Model, launch: Launch, stage: int) -> Sequence[Problem]:
    """vLLM's padding layers, as its own log names them."""
    wasted = padding_share(model.cache_on(launch, stage), launch)
    if not wasted:
        return ()
    text = f"padding layers waste up to {100 * wasted:.0f} % of the KV cache of some layers (vLLM's groups of layers)"
    return (Problem(code="cache-padding", text=text, warning=True),)


def graph_bytes(model: Model, launch: Launch, machine: Machine, requests: int) -> int:
    """CUDA graphs, as vLLM estimates them at its start: in pieces and whole, one for each batch size.

    The estimate is a figure for each graph; logs show none that grows with the layers. On several nodes each graph
    holds NCCL's buffers for two sums in a layer.
    """
    step = 1 + (launch.drafts.tokens if launch.drafts else 0)
    largest = launch.graph_batch or min(2 * requests * step, LARGEST_GRAPH)
    pieces = graph_count(largest, step)
    only_pieces = step > 1 and launch.cache_type.startswith("fp8") and not launch.may_be_from(UNIFORM_DRAFTS)
    whole = 0 if only_pieces else graph_count(min(requests * step, largest), step)
    each = machine.figures[_graph_figure(model)].value
    if launch.ranks.tensor > 1:
        layers = (len(model.layers) or LAYERS) / launch.ranks.stages
        each += 2 * layers * machine.figures["vllm_graph_sum_mib"].value
    return ceil((pieces + whole) * each * (1 << 20))


def graph_count(largest: int, step: int = 1) -> int:
    """Batch sizes up to the largest: 1, 2, 4, then each 8th to 256, then each 16th; with drafts whole steps only."""
    sizes = {size for size in (1, 2, 4, *range(8, 256, 8), *range(256, LARGEST_GRAPH + 1, 16)) if size <= largest}
    return len({min(-(-size // step) * step, largest // step * step) for size in sizes} - {0})


def _graph_figure(model: Model) -> str:
    """By what a layer is made of: experts, Mamba, or neither."""
    if any(layer.mixer in ("mamba", "parallel") for layer in model.layers):
        return "vllm_graph_mamba_mib"
    return "vllm_graph_mib" if model.fields is None or model.fields.experts else "vllm_graph_dense_mib"
