"""A serve command becomes a launch, as far as memory goes; whether the recipe of a known model fits into its nodes."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil
from typing import Final

from gb10.core.checked import NotChecked, in_order
from gb10.errors import UsageError
from gb10.models.issue import Issue, Level, errors_of
from gb10.models.lint.engine_words import declared, known_words, own_releases, words_for
from gb10.models.lint.served import (
    LintCase,
    Options,
    engine_of,
    json_object,
    options_of,
    release_of,
    requested_nodes,
    share,
    size_in_gib,
    vllm_drafts,
    whole,
    word,
    words_of,
)
from gb10.models.load.model_recipe import ModelRecipe
from gb10.models.memory.engines.budget import Budget, Machine, gib
from gb10.models.memory.engines.vllm import INDEXER_LOGITS
from gb10.models.memory.estimating import NEARLY_FULL, Estimate, estimate
from gb10.models.memory.figures import GIB, load_figures
from gb10.models.memory.launch import Drafts, Engine, HostTier, Launch
from gb10.models.memory.memory_options import OFF, load_options, uncounted
from gb10.models.memory.model import Model, known_model
from gb10.models.memory.weights.weight import Ranks
from gb10.models.render.rendered import RenderedRecipe, RenderRequest
from gb10.models.render.rendering import render_recipe

MOST_RANKS: Final = 64
FROM_THE_TEXT: Final = ("ngram", "ngram_gpu", "suffix")
"""Methods that draft without a model, also written as a model and as ``[ngram]``: vLLM 0.33.0, config/speculative.py;
SGLang 0.5.23, NGRAM."""
READ_LAYERS: Final = {"eagle3": 3, **dict.fromkeys(("dflash", "dflash2", "dspark"), 5)}
"""Layers whose states a method reads: EAGLE-3's own number, and that of the published DFlash models (target_layer_ids);
vLLM 0.33.0, v1/worker/gpu_model_runner.py, use_aux_hidden_state_outputs."""
OUR_IMAGES: Final = "gb10/"
PARAMETERS: Final[Mapping[str, tuple[str, ...]]] = {
    "--tensor-parallel-size": ("tensor_parallel",),
    "--pipeline-parallel-size": ("pipeline_parallel",),
    "--data-parallel-size": ("data_parallel",),
    "length": ("ctx_size", "max_model_len"),
    "requests": ("max_num_seqs",),
    "fraction": ("free_gpu_memory_fraction", "gpu_memory_utilization"),
    "cache": ("kv_cache_dtype",),
    "batched": ("max_num_batched_tokens", "ubatch_size"),
}
"""Where engines without known options keep their numbers."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ServedModel:
    """What a recipe serves, and how; ``issues`` are those of the rendering, with which nothing else is known."""

    model: str
    launch: Launch
    issues: tuple[Issue, ...] = ()
    unchecked: tuple[NotChecked, ...] = ()
    """Options that change the memory and are not counted."""


def served_model(recipe: ModelRecipe, request: RenderRequest, releases: Mapping[str, str]) -> ServedModel:
    """The launch of a recipe on as many nodes as it asks for. Raises UsageError for a number that is none."""
    peer = request.peer or ("eugr" if recipe.format == "v1" else "sparkrun")
    most = recipe.values.get("max_nodes")
    enough = most if isinstance(most, int) and 0 < most < MOST_RANKS else MOST_RANKS  # sparkrun takes what it needs
    wanted_nodes = min(requested_nodes(recipe), MOST_RANKS) if peer == "eugr" else enough
    nodes = request.nodes or tuple(f"node-{number}" for number in range(1, wanted_nodes + 1))
    rendered = render_recipe(recipe, replace(request, nodes=nodes))
    if rendered.serve is None:  # a mistake that its own launcher does not mind does not change what it takes
        rendered = render_recipe(recipe, replace(request, nodes=nodes, peer="eugr" if peer == "eugr" else "sparkrun"))
    return model_of_rendered(recipe, rendered, releases)


def model_of_rendered(recipe: ModelRecipe, rendered: RenderedRecipe, releases: Mapping[str, str]) -> ServedModel:
    """The launch of a recipe that was rendered. Raises UsageError for a number that is none."""
    if errors_of(rendered.issues) and rendered.serve is None:
        return ServedModel(model=recipe.model or "", launch=Launch(engine="vllm"), issues=rendered.issues)
    command = rendered.serve or recipe.command or ""
    engine = engine_of(command, recipe)
    words = words_of(command, engine)
    options, _ = options_of(words)
    release = release_of(recipe, engine, releases)
    model = model_name(recipe, options, words if engine == "vllm" else ())
    launch = launch_of(_engine(engine, rendered), release, options, rendered, model)
    launch = replace(launch, fork=is_fork(engine or "", release, options))
    unchecked = uncounted_options(engine or "", release, options)
    return ServedModel(model=model, launch=launch, issues=rendered.issues, unchecked=unchecked)


def uncounted_options(engine: str, release: str, options: Options) -> tuple[NotChecked, ...]:
    """A row for each option of a command that changes the memory in a way that is not counted, or may do so."""
    newest = load_options().get(engine)
    found = words_for(engine, release) or (words_for(engine, newest.release) if newest else None)
    named = []
    for name, values in options.items():
        known = declared(found.words, name) if found else None
        base, dot, key = name.partition(".")
        opposite = known is not None and base.startswith("--no-") and not known.startswith("--no-")
        value = OFF if opposite else values[-1] if values else ""
        named.append((f"{known or base}{dot}{key.replace('-', '_')}", value))
    reason = _connector(options)[1] if engine == "vllm" else ""
    return in_order((*uncounted(engine, named), *([NotChecked(what="options", reason=reason)] if reason else ())))


def _engine(engine: str | None, rendered: RenderedRecipe) -> Engine:
    if engine == "trtllm":
        return "trtllm"
    if engine == "sglang" or rendered.runtime == "sglang":
        return "sglang"
    if engine is None and rendered.runtime in ("trtllm", "llama-cpp"):
        return "trtllm" if rendered.runtime == "trtllm" else "llama-cpp"
    return "vllm"


def model_name(recipe: ModelRecipe, options: Options, words: Sequence[str]) -> str:
    """The model that is served: what the command names, else the recipe's; ``words`` stand behind ``vllm serve``."""
    named = [*options.get("--model-path", ()), *options.get("--model", ())]
    first = words[0] if words and not words[0].startswith("-") else ""
    return next((name for name in (*named, first) if name and "{" not in name), recipe.model or "")


def launch_of_case(case: LintCase) -> Launch | None:
    """The launch of what lint looks at; None for an engine that it does not know. Raises UsageError for no number."""
    if case.engine not in ("vllm", "sglang"):
        return None
    rendered = RenderedRecipe(
        runtime=case.engine,
        image=case.recipe.container,
        script=None,
        serve=case.command,
        parameters=case.parameters,
        environment={name: str(value) for name, value in case.recipe.env.items()},
    )
    model = model_name(case.recipe, case.options, case.first if case.engine == "vllm" else ())
    engine: Engine = "sglang" if case.engine == "sglang" else "vllm"
    launch = launch_of(engine, case.release, case.options, rendered, model)
    return replace(launch, fork=is_fork(case.engine, case.release, case.options))


@lru_cache(maxsize=16)
def _estimated(model: Model, launch: Launch) -> Estimate | UsageError:
    try:
        return estimate(model, launch, Machine(figures=load_figures()))
    except UsageError as error:
        return error


def estimate_of_case(case: LintCase) -> Estimate | UsageError | None:
    """The memory of what lint looks at, or why it is not known; None where the model or the engine is not known."""
    model = case.sizes or known_model(case.recipe.model or "")
    try:
        launch = launch_of_case(case)
    except UsageError as error:
        return error
    return _estimated(model, launch) if model is not None and launch is not None else None


def is_fork(engine: str, release: str, options: Options) -> bool:
    """Whether a command has options that the release lacks; false where the release's options are not known."""
    words = known_words(engine, release)
    return words is not None and any(declared(words, name) is None for name in options if name.startswith("--"))


def launch_of(engine: Engine, release: str, options: Options, rendered: RenderedRecipe, model: str) -> Launch:
    """The launch of a model; raises UsageError for a value that is no number."""
    own = (rendered.image or "").startswith(OUR_IMAGES)
    if engine == "vllm":
        found = vllm_drafts(options)
        drafts = None if found is None else _drafts(found.tokens, found.method, found.model, model)
        return replace(_vllm(options, release, rendered.environment, own_image=own), drafts=drafts)
    if engine == "sglang":
        return replace(_sglang(options, release, own_image=own), drafts=_sglang_drafts(options, model))
    return _by_parameters(engine, release, rendered.parameters)


def _vllm(options: Options, release: str, environment: Mapping[str, str], *, own_image: bool) -> Launch:
    fixed = size_in_gib(options, "--gpu-memory-utilization-gb")
    total = load_figures()["total"].gib or 1
    fraction = fixed / total if fixed else share(options, "--gpu-memory-utilization")
    fraction = fraction or share(options, "--device-memory-utilization")
    limits = json_object(next(iter(options.get("--limit-mm-per-prompt", ())), ""))
    logits, jobs = environment.get(INDEXER_LOGITS, ""), environment.get("MAX_JOBS", "")
    ranks = _ranks(options, experts="--enable-expert-parallel" in options)
    prefill_ranks = whole(options, "--prefill-context-parallel-size") or 1
    tier = _connector(options)[0]
    if tier is not None and tier.size is not None and not tier.option.endswith(PER_RANK):
        tier = replace(tier, size=ceil(tier.size / (ranks.tensor * ranks.stages * prefill_ranks)))
    return Launch(
        engine="vllm",
        release=release,
        ranks=replace(ranks, expert_copies=ranks.expert_copies * prefill_ranks),
        prefill_ranks=prefill_ranks,
        sequence_ranks=whole(options, "--decode-context-parallel-size") or 1,
        host_tier=tier,
        offloaded=_offloaded(options),
        sleeps="--enable-sleep-mode" in options,
        picture_cache=_or_none(options, "--mm-processor-cache-gb"),
        quantized=_quantization(options),
        state_type=word(options, "--mamba-ssm-cache-dtype", "--mamba-cache-dtype"),
        replicas=whole(options, "--data-parallel-size") or 1,
        fraction=fraction,
        cache_size=whole(options, "--kv-cache-memory-bytes") or whole(options, "--kv-cache-memory"),
        length=whole(options, "--max-model-len"),
        requests=whole(options, "--max-num-seqs"),
        batched=whole(options, "--max-num-batched-tokens"),
        cache_type=word(options, "--kv-cache-dtype"),
        graphs="--enforce-eager" not in options,
        whole_graphs="--enforce-eager" not in options and _graph_mode(options) not in ("PIECEWISE", "NONE"),
        graph_batch=whole(options, "--max-cudagraph-capture-size"),
        loader=word(options, "--load-format"),
        loader_limit=_extra(options).get("memory_limit"),
        mapped=word(options, "--safetensors-load-strategy") != "eager",
        prefix_caching=_switch(options, "enable-prefix-caching"),
        scheduled_ahead="--no-async-scheduling" not in options,
        block=whole(options, "--block-size"),
        experts=word(options, "--moe-backend"),
        text_only="--language-model-only" in options,
        jobs=int(jobs) if re.fullmatch(r"[1-9]\d{0,2}", jobs) else None,
        indexer_logits=int(logits) if re.fullmatch(r"[1-9]\d{0,5}", logits) else None,
        pictures=not (limits.get("image") == 0 and limits.get("video", 0) == 0),
        own_image=own_image,
    )


def _graph_mode(options: Options) -> str:
    """The mode of vLLM's CUDA graphs, by its object or by its key, else of its level; empty where none says it.

    vLLM 0.33.0, config/vllm.py: without optimization (-O0) there are none, with -O1 graphs of pieces.
    """
    given = (*options.get("--compilation-config", ()), *options.get("-cc", ()))
    key = word(options, "--compilation-config.cudagraph_mode", "-cc.cudagraph_mode")
    found = json_object(next(iter(given), "")).get("cudagraph_mode") or ("" if key == "auto" else key)
    level = next((level for level in LEVELS if f"-O{level}" in options), word(options, "-O", "--optimization-level"))
    return str(found or LEVELS.get(level, "")).upper()


LEVELS: Final[Mapping[str, str]] = {"0": "NONE", "1": "PIECEWISE"}


def _switch(options: Options, name: str) -> bool | None:
    """``--NAME`` or ``--no-NAME``; None where neither is there."""
    off = f"--no-{name}" in options
    return not off if off or f"--{name}" in options else None


PER_RANK: Final = "cpu_bytes_to_use_per_rank"
SIMPLE_SIZE: Final = 8 * GIB
"""What vLLM's SimpleCPUOffloadConnector takes over all ranks by default (simple_cpu_offload_connector.py)."""
MOST_BYTES: Final = 1 << 46
NOTHING: Final = ("", "0", "0.0", "auto")


def _connector(options: Options) -> tuple[HostTier | None, str]:
    """vLLM's tier of the cache in host memory, with the bytes of all ranks or of one; and why one is not counted.

    vLLM 0.33.0: config/vllm.py, _post_init_kv_transfer_config; a secondary tier of the kind ``fs`` is files, which
    take no memory that stays (v1/kv_offload/tiering/spec.py).
    """
    size, backend = _or_none(options, "--kv-offloading-size"), word(options, "--kv-offloading-backend")
    if size and backend in ("auto", "native"):
        return HostTier(option="--kv-offloading-size", size=ceil(size * GIB)), ""
    if size:
        return (
            None,
            f"--kv-offloading-backend {backend[:40]}: a server beside vLLM holds that tier; --services counts it",
        )
    name = "--kv-transfer-config"
    if not any(option.partition(".")[0] == name for option in options):
        return None, ""
    config = json_object(next(iter(options.get(name, ())), ""))
    kind, extra = config.get("kv_connector"), config.get("kv_connector_extra_config")
    extra = extra if isinstance(extra, Mapping) else {}
    key = PER_RANK if kind == "SimpleCPUOffloadConnector" and PER_RANK in extra else "cpu_bytes_to_use"
    held = extra.get(key, SIMPLE_SIZE if kind == "SimpleCPUOffloadConnector" else None)
    tiers = extra.get("secondary_tiers", [])
    plain = (
        extra.get("spec_name", "CPUOffloadingSpec") in ("CPUOffloadingSpec", "TieringOffloadingSpec")
        and extra.get("kv_offload_backend", "cpu") == "cpu"
        and isinstance(tiers, list)
        and all(isinstance(one, Mapping) and one.get("type") == "fs" for one in tiers)
    )
    known = kind in ("OffloadingConnector", "SimpleCPUOffloadConnector") and plain
    if known and isinstance(held, int | float) and 0 < held <= MOST_BYTES:
        return HostTier(option=f"{name} {key}", size=ceil(held)), ""
    return None, f"{name}: what {str(kind or 'its connector')[:60]} holds is not computed"


def _or_none(options: Options, name: str) -> float | None:
    """A number of GiB, 0 too; None when it is absent or ``auto``."""
    text = word(options, name)
    return (0.0 if text != "auto" else None) if text in NOTHING else size_in_gib(options, name)


def _offloaded(options: Options) -> int:
    """Bytes of --cpu-offload-gb, which are GiB in both engines."""
    return ceil((_or_none(options, "--cpu-offload-gb") or 0) * GIB)


def _quantization(options: Options) -> str:
    found = word(options, "--quantization")
    return "" if found.lower() in ("none", "auto") else found


def _host_pools(options: Options) -> HostTier | None:
    """SGLang's hierarchical cache: a size in 10^9 bytes, a ratio, or a default ratio that shrinks until it fits.

    SGLang 0.5.23: arg_groups/hicache_hook.py, handle_hicache_ratio_default.
    """
    name = next((one for one in ("--enable-hierarchical-cache", "--enable-hicache") if one in options), "")
    if not name:
        return None
    given = word(options, "--hicache-size") not in NOTHING  # 0 is SGLang's default: by the ratio
    size = whole(options, "--hicache-size") if given else None
    ratio = size_in_gib(options, "--hicache-ratio")
    if size:
        return HostTier(option="--hicache-size", size=size * 10**9)
    if ratio:
        return HostTier(option="--hicache-ratio", ratio=ratio)
    default = 1.2 if word(options, "--hicache-host-memory-mode") == "buffer_only" else 2.0
    return HostTier(option=name, ratio=default, share=share(options, "--hicache-host-memory-fraction") or 0.8)


def _extra(options: Options) -> dict[str, int]:
    """The whole numbers of --model-loader-extra-config."""
    found = json_object(next(iter(options.get("--model-loader-extra-config", ())), ""))
    return {name: value for name, value in found.items() if type(value) is int and 0 < value < 1 << 46}


def _sglang(options: Options, release: str, *, own_image: bool) -> Launch:
    shared = "--enable-dp-attention" in options
    backups = ("--enable-weights-cpu-backup", "--enable-draft-weights-cpu-backup")
    return Launch(
        engine="sglang",
        release=release,
        ranks=_ranks(options, experts=False),
        replicas=1 if shared else whole(options, "--data-parallel-size", "--dp-size", "--dp") or 1,
        fraction=share(options, "--mem-fraction-static"),
        cache_tokens=whole(options, "--max-total-tokens"),
        length=whole(options, "--context-length"),
        requests=whole(options, "--max-running-requests"),
        batched=whole(options, "--chunked-prefill-size"),
        cache_type=word(options, "--kv-cache-dtype"),
        graphs="--disable-cuda-graph" not in options,
        graph_batch=whole(options, "--cuda-graph-max-bs-decode", "--cuda-graph-max-bs"),
        states=whole(options, "--max-mamba-cache-size"),
        state_buffers=word(options, "--mamba-radix-cache-strategy", "--mamba-scheduler-strategy") != "no_buffer",
        prefix_caching=False if "--disable-radix-cache" in options else None,
        loader=word(options, "--load-format"),
        loader_limit=_extra(options).get("memory_limit") or _extra(options).get("num_threads"),
        mapped="--weight-loader-disable-mmap" not in options,
        experts=word(options, "--moe-runner-backend"),
        text_only="--language-only" in options or "--language-model-only" in options,
        sequence_ranks=whole(options, "--dcp-size", "--decode-context-parallel-size") or 1,
        host_tier=_host_pools(options),
        offloaded=_offloaded(options),
        sleeps=any(name in options for name in backups),
        quantized=_quantization(options),
        state_type=word(options, "--mamba-ssm-dtype"),
        window_share=share(options, "--swa-full-tokens-ratio"),
        state_share=size_in_gib(options, "--mamba-full-memory-ratio"),
        table_in_file=word(options, "--ple-offload-backend") == "file" and "--no-ple-offload-embedding" not in options,
        own_image=own_image,
    )


def _by_parameters(engine: Engine, release: str, parameters: Mapping[str, object]) -> Launch:
    options = {
        name: (str(value),)
        for name, keys in PARAMETERS.items()
        if (value := next((parameters[key] for key in keys if parameters.get(key) is not None), None)) is not None
    }
    return Launch(
        engine=engine,
        release=release,
        ranks=_ranks(options, experts=False),
        fraction=share(options, "fraction"),
        length=whole(options, "length"),
        requests=whole(options, "requests"),
        batched=whole(options, "batched"),
        cache_type=word(options, "cache"),
    )


def _ranks(options: Options, *, experts: bool) -> Ranks:
    tensor = whole(options, "--tensor-parallel-size") or 1
    stages = whole(options, "--pipeline-parallel-size", "--pp-size") or 1
    copies = whole(options, "--data-parallel-size") or 1 if experts else 1
    if tensor * stages * copies > MOST_RANKS:
        raise UsageError(f"{tensor} x {stages} x {copies} ranks are more than {MOST_RANKS}", hint="one GPU a node")
    return Ranks(tensor=tensor, stages=stages, expert_copies=copies)


def _sglang_drafts(options: Options, served: str) -> Drafts | None:
    method = word(options, "--speculative-algorithm")
    if method == "auto":
        return None
    steps = whole(options, "--speculative-num-steps")
    tokens = whole(options, "--speculative-num-draft-tokens") or (steps + 1 if steps else 4)
    drafter = word(options, "--speculative-draft-model-path", "--speculative-draft-model")
    return _drafts(tokens, method, drafter, served)


def _drafts(tokens: int, method: str, drafter: str, served: str) -> Drafts:
    """Drafts from the text alone, of a model of its own, or of the served model's layer, as where none is named."""
    if {name.lower().strip("[]") for name in (method, drafter)} & set(FROM_THE_TEXT):
        return Drafts(tokens=tokens, own=False, size=0)
    reads = READ_LAYERS.get(method.lower(), 0)
    if drafter in ("", "auto", served):
        return Drafts(tokens=tokens, own=True, reads=reads)
    sizes = known_model(drafter)
    return Drafts(tokens=tokens, own=False, model=drafter, size=sizes.total if sizes else None, reads=reads)


CODE = "does-not-fit"
FULL = "memory-nearly-full"
NOTED = "memory-note"


@dataclass(frozen=True, kw_only=True, slots=True)
class Fit:
    """What is known of a recipe's memory without the network."""

    recipe: ModelRecipe
    launch: Launch | UsageError
    """The launch as far as memory goes, or the mistake of the recipe that hides it."""
    estimate: Estimate | None
    """None when the sizes of the model, or those of its cache, are not known."""

    def issues(self, *, lenient: bool = False) -> tuple[Issue, ...]:
        """An error for what does not fit; a warning for less than a node's reserve; notes on what was left out.

        ``lenient``: what does not fit is a warning, as another launcher starts it.
        """
        if self.estimate is None:
            return ()
        if not self.estimate.fits:
            text = "; ".join(problem.text for problem in self.estimate.tightest.problems if not problem.warning)
            return (
                self._issue(
                    CODE,
                    f"it does not fit into a node's memory: {text}",
                    " or ".join(self.estimate.remedies),
                    level="warning" if lenient else "error",
                ),
            )
        fix = "end what else runs on the node, or take a smaller share"
        full = (problem for problem in self.estimate.tightest.problems if problem.code in NEARLY_FULL)
        return (
            *(self._issue(FULL, problem.text, fix) for problem in full),
            *(self._issue(NOTED, note, "", level="note") for note in self.estimate.notes),
        )

    def _issue(self, code: str, text: str, fix: str, *, level: Level = "warning") -> Issue:
        line = self.recipe.line("command")
        return Issue(code=code, level=level, file=self.recipe.file, line=line, text=text, fix=fix)

    @property
    def line(self) -> str | None:
        """``103.9 of 121.7 GiB a node, 24.7 requests of full length``, for ``recipe show``."""
        if self.estimate is None:
            return None
        budget = self.estimate.tightest
        if not self.estimate.fits:
            return f"does not fit: {next(problem.text for problem in budget.problems if not problem.warning)}"
        requests = requests_of(budget, self.estimate)
        return f"{gib(budget.serving)} of {gib(budget.total)} a node{requests} (recipe memory)"


def fit_of(
    recipe: ModelRecipe,
    request: RenderRequest,
    rendered: RenderedRecipe | None = None,
    *,
    sizes: Model | None = None,
) -> Fit:
    """The estimate of a recipe on as many nodes as it asks for. Never raises: what is not known is None.

    ``rendered``: what it was rendered to already, if its command does not depend on the nodes. ``sizes`` are the
    model's, where its files were read; else those of the checkout count.
    """
    try:
        if rendered is not None and rendered.serve is not None:
            served = model_of_rendered(recipe, rendered, own_releases())
        else:
            served = served_model(recipe, replace(request, nodes=()), own_releases())
    except UsageError as error:
        return Fit(recipe=recipe, launch=error, estimate=None)
    try:
        model = sizes or known_model(served.model)
        found = estimate(model, served.launch, Machine(figures=load_figures())) if model is not None else None
    except UsageError:
        found = None
    return Fit(recipe=recipe, launch=served.launch, estimate=found)


def requests_of(budget: Budget, found: Estimate) -> str:
    """How many requests of full length the cache holds, as the end of a sentence."""
    if budget.requests is None or not found.launch.length:
        return ""
    return f", {budget.requests:.1f} requests of {found.launch.length} tokens"
