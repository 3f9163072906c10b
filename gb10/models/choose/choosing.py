"""The launch of a model: engine, nodes, memory, context, parsers. Each choice has its reason. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Final, Literal

from gb10.core.printing import printable
from gb10.errors import UsageError
from gb10.models.choose.served_models import Containers, Served, format_of, served_by
from gb10.models.memory.cache import Cache
from gb10.models.memory.engines.budget import Machine, gib
from gb10.models.memory.engines.vllm import FEW_LOGITS, INDEXER_LOGITS
from gb10.models.memory.estimating import NEARLY_FULL, OF_NODES, Estimate, estimate
from gb10.models.memory.gguf import GgufFile
from gb10.models.memory.launch import Drafts, Engine, Launch
from gb10.models.memory.model import ENCODERS, Model, model_of
from gb10.models.memory.shapes.config_fields import Fields, mapping_in, word_in
from gb10.models.memory.shapes.decoder import FAMILIES
from gb10.models.memory.weights.weight import Ranks

Purpose = Literal["chat", "agents", "batch"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """What a purpose asks of a server: tokens of a request that must fit, those it gets at most, requests at once."""

    least: int
    most: int
    requests: int
    why: str


PURPOSES: Final[dict[Purpose, Wanted]] = {
    "chat": Wanted(least=16_384, most=131_072, requests=8, why="a few people who talk"),
    "agents": Wanted(least=65_536, most=524_288, requests=4, why="few requests with long contexts"),
    "batch": Wanted(least=8_192, most=32_768, requests=64, why="many short requests at once"),
}
NODES: Final = (1, 2, 3, 4, 6, 8, 16)
SHARES: Final = tuple(round(share / 100, 2) for share in range(85, 34, -1))
"""Tried from the largest: above it what else runs on a node decides whether a server starts."""
BATCHED: Final = 8192
DRAFTS: Final = 2
"""Tokens that the variant of a model's own draft layer proposes."""
DISK: Final = 3e9
"""Bytes a second that a fast NVMe disk of a Spark reads."""
STEP: Final = 1024
FULL: Final = (*NEARLY_FULL, "load-peak")
"""Problems of a node that would keep less than its reserve."""
OFFSET: Final = ("roberta", "xlm-roberta", "camembert")
"""Types whose first positions are not used: as many as the number of the padding token, and one."""
EIGHT_BITS: Final = {"vllm": "fp8", "sglang": "fp8_e4m3"}
ENGINES: Final[tuple[Engine, ...]] = ("vllm", "sglang")


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelFiles:
    """What is known of a model by its files: how a command names it, config, sizes, chat template, commit."""

    name: str
    fields: Fields
    sizes: Model
    template: str = ""
    revision: str = ""
    has_weights: bool = True
    """Whether its weights are where the server will look for them, or can be downloaded."""
    pools: bool = False
    """Whether it is made to pool, whatever its architecture: it has the modules of sentence-transformers."""
    text_limit: int | None = None
    """The longest text in tokens, where the tokenizer says it."""
    own_tokenizer: bool = False
    """Whether its tokenizer is made by code in its files alone: there is no tokenizer.json."""
    gguf: GgufFile | None = None
    """The metadata of a GGUF model, which has no config: llama.cpp serves it."""

    @property
    def architecture(self) -> str:
        """The first of the config's architectures; empty when it names none."""
        return _architecture(self.fields)

    @property
    def longest(self) -> int:
        """The longest context that the config allows, in tokens; 0 when it names none."""
        found = self.fields.number("max_position_embeddings", default=0, largest=1 << 27)
        if self.fields.kind in OFFSET:
            found = max(found - self.fields.number("pad_token_id", default=1) - 1, 0)
        limited = self.text_limit if self.fields.kind in ENCODERS else None  # vLLM reads it of these alone
        return min(found or limited, limited) if limited else found


def _architecture(fields: Fields) -> str:
    named = fields.config.get("architectures")
    return printable(str(named[0])[:100]) if isinstance(named, list | tuple) and named else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reason:
    """One choice: a parameter or a subject, what was chosen, and why."""

    what: str
    value: str
    why: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """How a model is served, and why so."""

    files: ModelFiles
    engine: Engine
    container: str
    """Empty where gb10 builds no image of the engine."""
    launch: Launch
    found: Estimate
    pools: bool = False
    transcribes: bool = False
    """Whether it turns speech to text, so that it answers /v1/audio/transcriptions in place of a chat."""
    options: tuple[str, ...] = ()
    """More options of the engine, in order."""
    environment: tuple[tuple[str, str], ...] = ()
    """Variables of the engine."""
    draft_length: int | None = None
    """The context that fits with the model's own draft layer; None where it has none, or none fits."""
    reasons: tuple[Reason, ...] = field(default=())


@dataclass(frozen=True, kw_only=True, slots=True)
class ChoiceRequest:
    """What a person decides: how the model is used, and engine and nodes where they are not left to gb10."""

    purpose: Purpose = "chat"
    engine: str | None = None
    nodes: int | None = None


def choose(
    files: ModelFiles,
    machine: Machine,
    containers: Containers,
    *,
    purpose: Purpose = "chat",
    engine: str | None = None,
    nodes: int | None = None,
) -> Choice:
    """The launch for a purpose, on the fewest nodes that hold it. Raises UsageError with the closest thing that works.

    ``engine`` and ``nodes`` are the user's choice.
    """
    served, of_engine = engine_for(files.name, files.fields, engine)
    wanted = PURPOSES[purpose]
    launch, found, of_memory = _launch(files, served, machine, wanted, nodes)
    if engine is None and nodes is None and launch.engine == "vllm" and launch.nodes > 1 and files.sizes.table:
        aside = _on_fewer_nodes(files, machine, launch.nodes, wanted)
        if aside is not None:
            served, of_engine, (launch, found, of_memory) = aside
    pools = pools_by(files, served)
    logits = launch.indexer_logits
    transcribes = files.architecture in served.transcribes
    options, of_parsers = ((), ()) if pools or transcribes else _parsers(files, served)
    if _ranks_by_words(files, served):
        why = 'its files are of a model that writes "no" or "yes": the overrides make vLLM rank by these two words'
        options, of_parsers = RANKS_BY_WORDS, (Reason(what="ranks", value="by two words", why=why),)
    of_table, table_options = _of_table(files, launch)
    of_code, code_options = _of_code(files, served)
    of_requests = Reason(what="max_num_seqs", value=str(launch.requests), why=f"{purpose}: {wanted.why}")
    return Choice(
        files=files,
        engine=launch.engine,
        container=containers[served.engine],
        launch=launch,
        found=found,
        pools=pools,
        transcribes=transcribes,
        options=(*table_options, *code_options, *options),
        environment=((INDEXER_LOGITS, str(logits)),) if logits else (),
        draft_length=None if pools else _with_drafts(files, found, machine),
        reasons=(of_engine, *of_memory, of_requests, *of_table, *of_code, *of_parsers, *_left_alone(files, launch)),
    )


def _on_fewer_nodes(
    files: ModelFiles, machine: Machine, nodes: int, wanted: Wanted
) -> tuple[Served, Reason, tuple[Launch, Estimate, tuple[Reason, ...]]] | None:
    """SGLang's launch, whose table of embeddings may stay in a file, where that needs fewer nodes than vLLM's."""
    try:
        served, of_engine = engine_for(files.name, files.fields, "sglang")
        found = _launch(files, served, machine, wanted, None)
    except UsageError:
        return None
    if found[0].nodes >= nodes:
        return None
    why = (
        f"it needs {_count(found[0].nodes)}, and vLLM {nodes}: it leaves a table of {gib(files.sizes.table)} in a file"
    )
    return served, replace(of_engine, why=why), found


def _of_table(files: ModelFiles, launch: Launch) -> tuple[tuple[Reason, ...], tuple[str, ...]]:
    """Where SGLang keeps a table of embeddings, and the options that say so."""
    if launch.engine != "sglang" or not files.sizes.table:
        return (), ()
    if launch.table_in_file:
        why = f"{gib(files.sizes.table)} are read from the disk: the memory holds the rest"
        return (Reason(what="table", value="in a file", why=why),), ("--ple-offload-backend", "file")
    why = "CPU and GPU share the memory, so an offload frees nothing"
    return (Reason(what="table", value="in memory", why=why),), ("--no-ple-offload-embedding",)


def _of_code(files: ModelFiles, served: Served) -> tuple[tuple[Reason, ...], tuple[str, ...]]:
    """Whether Python of the model's files must run, and the option that allows it."""
    release, config = f"{served.engine} {served.release}", files.fields.config
    kind = word_in(config, "model_type")
    unread = bool(kind) and kind not in served.types
    if unread and "AutoConfig" not in mapping_in(config, "auto_map"):
        why = f"{release} has no class for this model_type, and the files bring none: the server may end at its start"
        return (Reason(what="config", value=printable(kind[:80]), why=why),), ()
    parts = [*(["config"] if unread else []), *(["tokenizer"] if files.own_tokenizer else [])]
    if not parts:
        return (), ()
    why = f"{release} has no class for its {' and '.join(parts)}, so Python of the model's files runs in the container"
    return (Reason(what="code", value="the model's own", why=why),), ("--trust-remote-code",)


def pools_by(files: ModelFiles, served: Served) -> bool:
    """Whether an engine's release serves a model for vectors or ranks."""
    named = files.architecture
    made_so = files.pools or _ranks_by_words(files, served)
    return made_so or named in served.pools or (named not in served.generates and served.has(named))


RANKS_BY_WORDS: Final = (
    "--hf-overrides",
    '\'{"architectures": ["Qwen3ForSequenceClassification"], "classifier_from_token": ["no", "yes"], '
    '"is_original_qwen3_reranker": true}\'',
)
"""Read by vLLM's model_executor/models/config.py and adapters.py."""


def _ranks_by_words(files: ModelFiles, served: Served) -> bool:
    """Whether it is one of Qwen3's rerankers as published: nothing but the name tells it from a model that writes."""
    named = files.architecture == "Qwen3ForCausalLM" and "qwen3-reranker" in files.name.lower()
    return named and served.engine == "vllm"


def engine_for(name: str, fields: Fields, asked: str | None) -> tuple[Served, Reason]:
    """The engine: the user's, else vLLM where it has the architecture, else SGLang. It needs the config alone.

    Raises UsageError for a config without an architecture, and for one that no engine has. vLLM 0.33.0 takes
    transformers' base class for a config without one, which has no output (transformers_utils/config.py, get_config).
    """
    named = _architecture(fields)
    if not named:
        raise _without_architecture(name, fields)
    known = [served_by(engine) for engine in ENGINES]
    releases = " nor ".join(f"{one.engine} {one.release}" for one in known)
    if any(named in one.drafts for one in known):
        raise UsageError(
            f"{name} only drafts for another model ({named})",
            hint="start that model with it: ./build.py run OWNER/MODEL -- --speculative-config "
            f'\'{{"method": …, "model": "{name}", "num_speculative_tokens": …}}\', by vLLM',
        )
    by_architecture = [one for one in known if one.has(named)]
    if not by_architecture:
        writes = named.endswith(("ForCausalLM", "ForConditionalGeneration"))
        own = ". Or vLLM runs transformers' own code for it: --model-impl transformers in a recipe of yours"
        raise UsageError(
            f"neither {releases} has the architecture {named}",
            hint="a newer release may: ./build.py recipe add finds what others serve it with; run FILE --image REF"
            + (own if writes else ""),
        )
    if fields.flag("is_encoder_decoder") or {"encoder_layers", "decoder_layers"} <= fields.text.keys():
        raise UsageError(
            f"{name} has an encoder beside its decoder ({printable(fields.kind[:80])}), whose cache is not computed",
            hint=f"a recipe of yours serves it by {by_architecture[0].engine}: ./build.py run FILE --memory GIB",
        )
    method = quantization_of(fields)
    able = [one for one in by_architecture if method == "" or method in one.quantizations]
    if not able:
        having = " and ".join(f"{one.engine} {one.release}" for one in by_architecture)
        raise UsageError(
            f"{name} has a quantization that {having} cannot read: {method or 'one without a name, as MLX writes'}",
            hint="choose files of this model in FP8, NVFP4, AWQ or GPTQ, or whole ones; or an image that reads these, "
            "in a recipe of yours: ./build.py run FILE --image REF",
        )
    chosen = next((one for one in able if one.engine == (asked or able[0].engine)), None)
    if chosen is None:
        lacking = (
            f"quantization {method}" if asked in {one.engine for one in by_architecture} else f"architecture {named}"
        )
        raise UsageError(f"{asked} has no {lacking}", hint=f"{able[0].engine} {able[0].release} has it")
    others = "both engines have it" if len(able) > 1 else f"only {able[0].engine} has it"
    if len(able) < len(by_architecture):
        others = f"only {able[0].engine} reads its quantization {method}"
    registered = f"its registry has {named}"
    if named not in chosen.generates | chosen.pools:
        registered = f"it makes a model that pools of the one that writes ({named})"
    why = "your choice" if asked else f"{registered}; {others}"
    return chosen, Reason(what="engine", value=f"{chosen.engine} {chosen.release}", why=why)


def _without_architecture(name: str, fields: Fields) -> UsageError:
    """A config that names no class: of a part of a pipeline for pictures, or incomplete."""
    part = fields.config.get("_class_name")
    if isinstance(part, str):
        return not_text(f"{name} is one part of a pipeline of diffusers ({part[:80]})")
    kind = f" (model type '{printable(fields.kind[:80])}')" if fields.kind else ""
    return UsageError(
        f"the config of {name}{kind} names no architecture, so no engine can be chosen",
        hint="add `architectures` to its config.json, as the model's first publisher has it: without it vLLM takes "
        "a class that writes no text",
    )


def not_text(what: str) -> UsageError:
    """The error for a model that makes pictures, sound or video."""
    return UsageError(
        f"{what}, which makes no text",
        hint="diffusers runs it, or SGLang's server for pictures (sglang[diffusion]); our images have neither",
    )


def quantization_of(fields: Fields) -> str | None:
    """The method of a config's quantization, as engines read it; empty without one, None for one without a method.

    ModelOpt names an algorithm or itself in place of a method, and vLLM takes either (model_arch_config_convertor.py).
    MLX writes ``quantization`` with bits and the size of a group alone.
    """
    places = (fields.config, fields.text)
    found = next((one for place in places for name in QUANTIZED_BY if (one := mapping_in(place, name))), {})
    method = printable(word_in(found, "quant_method")[:80]).lower().replace("compressed_tensors", "compressed-tensors")
    if method or not found:
        return method
    return "modelopt" if found.keys() & {"quant_algo", "producer", "quantization"} else None


QUANTIZED_BY: Final = ("quantization_config", "compression_config", "quantization")
SMALLER: Final[Mapping[str, Mapping[str, object]]] = {
    "FP8 in blocks": {"quant_algo": "FP8_PB_WO"},
    "FP8 by channels": {"quant_algo": "FP8_PER_CHANNEL_PER_TOKEN"},
    "NVFP4": {"quant_algo": "NVFP4"},
    "AWQ": {"quant_method": "awq", "bits": 4, "group_size": 128},
}
"""Formats in which large models are published, from the most bits to the fewest."""
_Fit = Callable[[Model, int], tuple[Estimate, str] | None]
"""The estimate of a model on so many nodes and its type of cache; None where no launch fits."""


def _launch(
    files: ModelFiles, served: Served, machine: Machine, wanted: Wanted, nodes: int | None
) -> tuple[Launch, Estimate, tuple[Reason, ...]]:
    """The first launch that fits: fewest nodes, all requests or fewer, the cache's own type or eight bits."""
    counts = [nodes] if nodes else [count for count in NODES if not _why_not(files.fields, count)]
    if nodes and _why_not(files.fields, nodes):
        raise UsageError(f"{files.name} on {nodes} nodes: {_why_not(files.fields, nodes)}", hint="name another number")
    longest = min(files.longest or wanted.most, wanted.most)
    least = min(wanted.least, longest)
    whole = pools_by(files, served)

    def fit(sizes: Model, count: int) -> tuple[Estimate, str] | None:
        # SGLang can leave a table of embeddings in a file, which is slower: only where the nodes do not hold it.
        aside = (False, True) if sizes.table and served.engine == "sglang" else (False,)
        for in_file in aside:
            for cache in ("auto", EIGHT_BITS[served.engine]):
                for requests in dict.fromkeys((wanted.requests, max(wanted.requests // 4, 1), 1)):
                    base = replace(_base(files, served, count, cache, requests), table_in_file=in_file)
                    found = _with_share(sizes, _of_length(base, least, whole=whole), machine)
                    if found is not None:
                        return found, cache
        return None

    in_file = files.sizes.table if served.engine == "sglang" else 0
    for count in counts:
        if (files.sizes.total - in_file) / count <= machine.total and (first := fit(files.sizes, count)) is not None:
            return _longest(files, first[0], machine, longest, first[1], whole=whole)
    nearest = _of_length(_base(files, served, counts[-1], "auto", 1), least, whole=whole)
    raise UsageError(
        f"{files.name} does not fit on {'' if nodes else 'up to '}{_count(counts[-1])}: its weights take "
        f"{gib(files.sizes.total)}",
        hint=_instead(files, nearest, machine, fit),
    )


def _instead(files: ModelFiles, nearest: Launch, machine: Machine, fit: _Fit) -> str:
    """What would fit: the nearest launch with another option, on more nodes, or files with fewer bits."""
    remedies = estimate(files.sizes, nearest, machine).remedies
    of_options = [one for one in remedies if not one.startswith(OF_NODES)]  # these ask neither heads nor reserve
    if of_options:
        return of_options[-1]
    fewer = _fewer_bits(files, nearest, machine, fit)
    for count in NODES:
        wider = count > nearest.nodes and not _why_not(files.fields, count)
        if wider and files.sizes.total / count <= machine.total and fit(files.sizes, count) is not None:
            return f"it fits on {count} nodes; or {fewer}"
    return fewer


def _fewer_bits(files: ModelFiles, nearest: Launch, machine: Machine, fit: _Fit) -> str:
    """The format with the most bits with which a launch fits on these nodes; kernels pad each in its own way."""
    known = files.fields.kind in FAMILIES
    for name, quantization in SMALLER.items() if known else ():
        config = {**files.fields.config, "quantization_config": {**quantization, "ignore": ["lm_head"]}}
        sizes = model_of(config, files.name, "its config")
        if sizes.total < files.sizes.total and fit(sizes, nearest.nodes) is not None:
            return f"choose files in {name}: {gib(sizes.total)} in all, which fit on {_count(nearest.nodes)}"
    least = estimate(files.sizes, replace(nearest, fraction=SHARES[-1]), machine, advised=False).tightest
    peak, reserve = max(least.serving - least.pool, least.load), machine.figures["reserve"].size
    return (
        f"choose a smaller model: on {_count(nearest.nodes)} this one takes {gib(peak)} of a node's {gib(least.total)} "
        f"before it has a KV cache, and {gib(reserve)} must stay free"
    )


def _count(nodes: int) -> str:
    return f"{nodes} node{'s' * (nodes != 1)}"


def _why_not(fields: Fields, nodes: int) -> str:
    """Why tensor parallelism over so many nodes cannot be; empty when it can."""
    if fields.heads % nodes:
        return f"its {fields.heads} attention heads do not divide by {nodes}"
    if fields.kv_heads % nodes and nodes % fields.kv_heads:
        return f"its {fields.kv_heads} key-value heads and {nodes} nodes do not divide"
    return ""


def _base(files: ModelFiles, served: Served, nodes: int, cache: str, requests: int) -> Launch:
    return Launch(
        engine="vllm" if served.engine == "vllm" else "sglang",
        release=served.release,
        ranks=Ranks(tensor=nodes),
        requests=requests,
        batched=BATCHED,
        cache_type=cache,
        length=files.longest or None,
        indexer_logits=FEW_LOGITS if served.engine == "vllm" and files.fields.sparse else None,
        own_image=True,
    )


def _of_length(launch: Launch, length: int, *, whole: bool) -> Launch:
    """The same with another context; ``whole``: a text is computed in one step."""
    return replace(launch, length=length, batched=max(BATCHED, length) if whole else BATCHED)


def _with_share(sizes: Model, launch: Launch, machine: Machine) -> Estimate | None:
    """The estimate with the largest share that leaves each node its reserve; None where its cache holds no request."""

    def at(share: float) -> Estimate:
        return estimate(sizes, replace(launch, fraction=share), machine, advised=False)

    low, high = 0, len(SHARES) - 1  # the shares fall: what leaves the reserve leaves it with a smaller one, too
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if _leaves_reserve(at(SHARES[middle])) else (middle + 1, high)
    found = at(SHARES[low])
    return found if found.fits and _leaves_reserve(found) and _held(found) >= 1 else None


def _leaves_reserve(found: Estimate) -> bool:
    return not any(one.code in FULL for budget in found.budgets for one in budget.problems)


def _held(found: Estimate) -> float:
    """How many requests of full length the caches hold; no end of them for a model without a cache."""
    return min((inf if budget.requests is None else budget.requests for budget in found.budgets), default=1.0)


def _longest(
    files: ModelFiles, found: Estimate, machine: Machine, longest: int, cache: str, *, whole: bool
) -> tuple[Launch, Estimate, tuple[Reason, ...]]:
    """The same with the longest context of which the cache still holds a request; ``whole``: computed in one step."""
    low, high = (found.launch.length or STEP) // STEP, longest // STEP
    best = found

    def of_length(length: int) -> Estimate | None:
        launch = _of_length(found.launch, length, whole=whole)
        if whole:  # a longer step needs a smaller share
            return _with_share(files.sizes, launch, machine)
        tried = estimate(files.sizes, launch, machine, advised=False)
        return tried if tried.fits and _held(tried) >= 1 else None

    while low < high:
        middle = (low + high + 1) // 2
        if (tried := of_length(middle * STEP)) is not None:
            low, best = middle, tried
        else:
            high = middle - 1
    if low == longest // STEP and (tried := of_length(longest)) is not None:
        best = tried
    best, why = _enough(files.sizes, best, machine)
    launch, budget, length = best.launch, best.tightest, best.launch.length
    keeps = files.sizes.cache != Cache()
    held = f"{budget.requests:.1f} such requests fit into the cache" if keeps else "an encoder keeps no cache"
    limit = f"the model's own limit is {files.longest}" if files.longest else "the model names no limit"
    if length == longest < files.longest:
        limit = f"as long as this use needs; {limit}"
    reasons = [
        Reason(
            what="tensor_parallel",
            value=str(launch.nodes),
            why=f"the fewest nodes that hold {gib(files.sizes.total)} of weights and the cache",
        ),
        Reason(
            what="gpu_memory_utilization",
            value=f"{launch.fraction:g}",
            why=f"{why}: {gib(budget.serving)} of {gib(budget.total)} in use",
        ),
        Reason(what="max_model_len", value=str(length), why=f"{limit}; {held}"),
    ]
    if whole:
        why = "a text is computed in one step: encoders, and means over all tokens, cannot be divided"
        reasons.append(Reason(what="max_num_batched_tokens", value=str(launch.batched), why=why))
    if cache != "auto":
        why = "with the cache's own type too few tokens fit"
        reasons.append(Reason(what="kv_cache_dtype", value=cache, why=why))
    return launch, best, tuple(reasons)


def _enough(sizes: Model, found: Estimate, machine: Machine) -> tuple[Estimate, str]:
    """The same with the smallest share whose cache holds all requests at full length; else as it is; and why so."""
    wanted, best = float(found.launch.requests or 1), found
    low, high = SHARES.index(found.launch.fraction or SHARES[0]), len(SHARES) - 1
    if _held(found) < wanted:
        return found, "the largest share that leaves a node its reserve"
    while low < high:
        middle = (low + high + 1) // 2
        tried = estimate(sizes, replace(found.launch, fraction=SHARES[middle]), machine, advised=False)
        if tried.fits and _held(tried) >= wanted:
            low, best = middle, tried
        else:
            high = middle - 1
    return best, "the smallest share whose cache holds all requests at full length"


def _with_drafts(files: ModelFiles, found: Estimate, machine: Machine) -> int | None:
    """The longest context with drafts of the model's own layer, a step shorter each time."""
    length = found.launch.length or 0
    tokens = DRAFTS + (found.launch.engine == "sglang")  # SGLang counts the verified token to the drafts
    while files.sizes.drafts and length >= STEP:
        launch = replace(found.launch, drafts=Drafts(tokens=tokens, own=True), length=length)
        tried = estimate(files.sizes, launch, machine, advised=False)
        if tried.fits and _held(tried) >= 1:
            return length
        length = length * 7 // 8 // STEP * STEP
    return None


def _parsers(files: ModelFiles, served: Served) -> tuple[tuple[str, ...], tuple[Reason, ...]]:
    """The options that read tool calls and reasoning, by the model's own template."""
    if not files.template:
        why = "no file of the model has a chat template: it completes text, and /v1/chat/completions refuses it"
        return (), (Reason(what="chat template", value="none", why=why),)
    if served.engine == "sglang":
        why = "SGLang finds the format in the model's template"
        return (
            ("--reasoning-parser", "auto", "--tool-call-parser", "auto"),
            (Reason(what="parsers", value="auto", why=why),),
        )
    found = format_of(files.template, files.fields.kind, files.name)
    if found is None:
        why = "the model's template has no mark of a known format, so tool calls come as text"
        return (), (Reason(what="tool-call-parser", value="none", why=why),)
    reasoning = found.reasoning_for(files.template)
    options = (
        *(("--reasoning-parser", reasoning) if reasoning else ()),
        *("--enable-auto-tool-choice", "--tool-call-parser", str(found.tools)),
    )
    chosen = f"{found.tools}{f', reasoning {reasoning}' if reasoning else ''}"
    return options, (Reason(what="parsers", value=chosen, why=f"{found.mark} in its template: {found.what}"),)


def _left_alone(files: ModelFiles, launch: Launch) -> Iterator[Reason]:
    """What is left to the engine, and said."""
    yield Reason(
        what="backends",
        value="the engine's",
        why="nothing is known against its defaults for this model; ./build.py explain MODEL shows what it takes",
    )
    for note in files.sizes.notes:
        yield Reason(what="weights", value=gib(files.sizes.total), why=note)
    if files.sizes.drafts:
        yield Reason(
            what="drafts",
            value="off",
            why=f"the files have a draft layer of {gib(files.sizes.drafts)}: the variant mtp uses it; whether it is "
            "faster was not measured",
        )
    if launch.engine == "vllm" and launch.length and launch.length > (launch.batched or BATCHED):
        yield Reason(
            what="prefill",
            value=f"{BATCHED} tokens a step",
            why="memory is counted for one step: lower max_model_len if the memory guard ends the server",
        )
    if launch.indexer_logits:
        yield Reason(
            what="env",
            value=f"{INDEXER_LOGITS}={launch.indexer_logits}",
            why="by default the logits of the sparse indexer grow with each step of a long prompt and are kept: one of "
            "231k tokens ended two Sparks whose caches had room for it (vllm-project/vllm#55569)",
        )


def _where(files: ModelFiles) -> str:
    if not files.name.startswith("/"):
        return ", downloaded if they are not there yet"
    return " in its folder" if files.has_weights else " by its config: its folder has none in safetensors files"


def lines(choice: Choice) -> Sequence[str]:
    """The plan in ten lines at most, for a person who is asked."""
    launch, budget = choice.launch, choice.found.tightest
    nodes, files = _count(launch.nodes), choice.files
    held = f", {budget.requests:.1f} of full length in the cache" if budget.requests else ""
    nodes += ", tensor parallel" if choice.engine in ENGINES else ""
    capped = "PyTorch is capped, and a guard watches" if choice.engine in ENGINES else "a guard watches"
    if choice.engine == "llama-cpp":
        held = ", which divide it"
    engine = f"{choice.engine} {launch.release}".rstrip()
    whole = files.sizes.total + files.sizes.drafts
    seconds = round(whole / launch.nodes / DISK)
    return (
        f"{files.name}{f' at {files.revision[:12]}' if files.revision else ''}",
        f"engine    {engine}, {choice.container or 'the image of --image'}",
        f"nodes     {nodes}",
        f"memory    {gib(budget.serving)} of {gib(budget.total)} a node; {capped}",
        f"context   {launch.length} tokens, {launch.requests} requests at once{held}",
        f"weights   {gib(whole)}{_where(files)}",
        *(f"{one.what:10}{one.value}: {one.why}" for one in choice.reasons if one.what in ("code", "config")),
        f"start     {seconds // 60}:{seconds % 60:02} to read them at {DISK / 1e9:g} GB/s"
        + ("" if files.gguf else "; the first one compiles for minutes more"),
    )
