"""One node's budget: items with their origin, the pool for the cache, peaks, and what does not fit. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil, lcm
from typing import Final, Literal

from gb10.models.memory.figures import GIB, Figure, Known
from gb10.models.memory.launch import Engine, Launch
from gb10.models.memory.model import Model
from gb10.models.memory.shapes.config_fields import Fields
from gb10.models.memory.shapes.decoder import model_tensors
from gb10.models.memory.shapes.layers import TWO_MATRICES, Tensor, expert_size, latent_size
from gb10.models.memory.weights.scheme import Format
from gb10.models.memory.weights.weight import LAYER, Ranks, stage_of, weight_of

Code = Literal[
    "weights-too-large",
    "pool-too-small",
    "share-too-large",
    "headroom-too-small",
    "load-peak",
    "cache-padding",
    "prefill-grows",
    "table",
    "context-parallel",
    "cache-type",
    "host-tier",
    "asleep",
    "pictures",
    "compile-jobs",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """What takes ``size`` bytes while the server answers."""

    name: str
    size: int
    known: Known
    source: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """Why a node's memory is too small; ``warning`` when the server starts all the same."""

    code: Code
    text: str
    warning: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Budget:
    """Memory of the nodes of one pipeline stage. All sizes in bytes.

    ``pool`` is the KV cache's; ``tokens`` is what it holds of requests of full length, of which ``requests`` fit.
    ``load`` and ``start`` are peaks before the server answers: while it loads, and while it compiles at a first start,
    when ``compilers`` of it are the compilers'.
    """

    stage: int
    total: int
    items: tuple[Item, ...]
    pool: int
    tokens: int
    requests: float | None
    load: int
    start: int
    compilers: int
    problems: tuple[Problem, ...] = ()

    @property
    def serving(self) -> int:
        """Bytes in use while the server answers."""
        return sum(item.size for item in self.items)

    @property
    def fits(self) -> bool:
        """Whether the server starts, and leaves the machine what it needs."""
        return all(problem.warning for problem in self.problems)


def size_of(items: Sequence[Item], *names: str) -> int:
    """Bytes of the items with these names."""
    return sum(item.size for item in items if item.name in names)


def gib(size: float) -> str:
    """``59.1 GiB``."""
    return f"{size / GIB:.1f} GiB"


MARLIN: Final = "marlin"
DEFAULTS: Final = {"mxfp4": MARLIN, "nvfp4": "flashinfer_cutlass", "int4": MARLIN, "int8": MARLIN}
"""Kernels for experts by format, where no option names one."""
ROW_PARALLEL: Final = ("o_proj", "down_proj", "out_proj", "w2", "wo_b", "g_b_proj")
"""Projections whose columns the ranks divide; of others they divide the rows."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Expert:
    """Columns that an expert reads, and its inner width on a rank."""

    hidden: int
    inner: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Padding:
    """Bytes on a rank, and in words which sizes became which."""

    size: int = 0
    words: str = ""


def padding(model: Model, launch: Launch, stage: int) -> Padding:
    """What is added to the weights of a rank of a stage; nothing where the model's layers are not known."""
    if launch.engine not in ("vllm", "sglang"):
        return Padding()
    return _padding(model, launch.engine, launch.ranks, launch.experts, stage)


@lru_cache(maxsize=256)
def _padding(model: Model, engine: Engine, ranks: Ranks, experts: str, stage: int) -> Padding:
    fields, scheme = model.fields, model.scheme
    if fields is None or scheme is None or not scheme.rules:
        return Padding()
    inner = -(-expert_size(fields) // ranks.tensor) if fields.experts else 0
    was = now = Expert(hidden=latent_size(fields) or fields.hidden, inner=inner)
    total, gated = 0, fields.kind not in TWO_MATRICES
    for tensor in model_tensors(fields.config, model.name):
        weight = weight_of(tensor.name, 0, fields.layers)
        if weight.part == "draft" or not _is_on(tensor, stage, ranks, fields.layers):
            continue
        found = scheme.format_of(tensor)
        if weight.part == "experts":
            kind = found or scheme.format_of(replace(tensor, linear=True))  # a bias has no format of its own
            if kind is not None and (engine == "vllm" or kind.name == "mxfp4"):
                now = expert_sizes(kind, ranks, experts, was, gated=gated)
            total += round(_of_expert(tensor, found, was, now) * tensor.copies / ranks.expert_copies)
        elif found is not None and found.name in ("int4", "int8") and engine == "vllm":
            total += _of_projection(tensor, found, ranks.tensor)
    pairs = dict.fromkeys(((was.hidden, now.hidden), (was.inner, now.inner)))
    return Padding(size=total, words=" and ".join(f"{one:,} as {other:,}" for one, other in pairs if one != other))


def expert_sizes(kind: Format, rank: Ranks, experts: str, wanted: Expert, *, gated: bool) -> Expert:
    """Columns that an expert reads, and its inner width on a rank, as the kernel takes them."""
    kernel = DEFAULTS.get(kind.name, "") if experts == "auto" else experts
    wide, deep = _multiples(kind, kernel, rank, wanted.hidden, gated=gated)
    return Expert(hidden=_up(wanted.hidden, wide), inner=_up(wanted.inner, deep))


def _multiples(kind: Format, kernel: str, rank: Ranks, hidden: int, *, gated: bool) -> tuple[int, int]:
    """What the columns and the inner width are multiples of."""
    found = 1, 1
    if kind.name == "mxfp4" and kernel != "b12x":
        other = (128, 128) if "cutlass" in kernel else (1, 64)
        found = (256, 128) if kernel in (MARLIN, "flashinfer_mxfp4") else other
    elif kind.name == "nvfp4":
        marlin = 64 if hidden % 128 == 0 else 128
        found = 1, marlin if kernel == MARLIN else 1 if gated else 128
    elif kind.name in ("int4", "int8") and kernel == MARLIN:
        found = 1, lcm(64, kind.group or 1)
    elif kind.block and rank.tensor > 1:
        found = 1, kind.block
    return found


def _up(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple


def _is_on(tensor: Tensor, stage: int, ranks: Ranks, layers: int) -> bool:
    found = LAYER.search(tensor.name)
    return stage_of(int(found[1]), layers, ranks.stages) == stage if found else stage == 0


def _of_expert(tensor: Tensor, found: Format | None, was: Expert, now: Expert) -> int:
    """The bytes that a tensor of one expert grows by."""
    if found is None:  # a bias of gate, up and output, in two bytes
        grown = 2 * (now.inner - was.inner) + now.hidden - was.hidden
        return 2 * grown if tensor.name.endswith("bias") else 0
    down = tensor.name.endswith(("down_proj", "w2"))
    sizes = [(one.hidden, one.inner) if down else (one.inner, one.hidden) for one in (was, now)]
    before, after = (found.size(Tensor(name=tensor.name, rows=r, columns=c, linear=True)) for r, c in sizes)
    return after - before


def _of_projection(tensor: Tensor, found: Format, ranks: int) -> int:
    """Marlin's multiples of a dense projection on a rank: 64 rows by 128 columns, or 128 by 64."""
    rows, columns = tensor.rows, tensor.columns
    if tensor.name.rsplit(".", 1)[-1] in ROW_PARALLEL:
        columns = -(-columns // ranks)
    else:
        rows = -(-rows // ranks)
    best = min(_shapes(rows, columns, found.group or 1), key=lambda shape: shape[0] * shape[1])
    one = [Tensor(name=tensor.name, rows=r, columns=c, linear=True) for r, c in ((rows, columns), best)]
    return (found.size(one[1]) - found.size(one[0])) * tensor.copies


def _shapes(rows: int, columns: int, group: int) -> Iterator[tuple[int, int]]:
    yield _up(rows, 64), _up(columns, lcm(128, group))
    yield _up(rows, 128), _up(columns, lcm(64, group))


INTEGER_REPACK: Final = ("int4", "int8")
THREADS: Final = 8
"""Files that SGLang reads at a time, where they are not mapped."""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A Spark: its figures, and ``services`` (bytes) of what else runs on the node."""

    figures: Mapping[str, Figure]
    services: int = 0

    @property
    def total(self) -> int:
        """Bytes that CPU and GPU share."""
        return self.figures["total"].size

    def item(self, name: str, figure: str, size: int | None = None) -> Item:
        """A figure as an item; ``size`` where it is scaled."""
        found = self.figures[figure]
        return Item(name=name, size=found.size if size is None else size, known=found.known, source=found.source)


def machine_items(machine: Machine) -> tuple[Item, ...]:
    """System, other services, and the server's processes."""
    services = Item(name="other services", size=machine.services, known="assumed", source="--services")
    return (
        machine.item("system and driver", "system"),
        *((services,) if machine.services else ()),
        machine.item("processes of the server", "processes"),
    )


def weight_items(model: Model, launch: Launch, stage: int) -> tuple[Item, ...]:
    """Weights as the kernels keep them, those that the engine moves to the host, and the draft model."""
    parts = model.parts(launch, stage)
    size = sum(found for part, found in parts.items() if part != "draft")
    more, source = padding(model, launch, stage), model.source
    if more.size:
        source = f"{source}; {gib(more.size)} of it are padding: kernels take {more.words or 'larger tiles'}"
    moved = min(launch.offloaded, size + more.size)
    items = [Item(name="weights", size=size + more.size - moved, known=model.known, source=source)]
    if moved:
        items.append(Item(name=OFFLOADED, size=moved, known="computed", source=OFFLOADED_SOURCE))
    if parts.get("draft"):
        own = Item(name="draft layer", size=parts["draft"], known=model.known, source=model.source)
        items.append(own)
    drafts = launch.drafts
    if drafts is not None and not drafts.own and drafts.size != 0:
        taken = drafts.size
        if model.draft is not None:  # on the last stage, divided as the model's layers are
            of_rank = replace(launch, drafts=None, ranks=replace(launch.ranks, stages=1))
            taken = sum(model.draft.parts(of_rank, 0).values()) if stage == launch.ranks.stages - 1 else 0
        known: Known = "assumed" if taken is None else "computed"
        source = f"{drafts.model}: a draft of 1.5 GiB" if taken is None else f"files of {drafts.model}"
        items.append(
            Item(name="draft model", size=3 * GIB // 2 if taken is None else taken, known=known, source=source)
        )
    return tuple(items)


def loaded_size(items: Sequence[Item]) -> int:
    """Bytes of what is read from files."""
    return size_of(items, "weights", OFFLOADED, "draft layer", "draft model")


def sleeping(model: Model, launch: Launch, items: Sequence[Item]) -> Sequence[Problem]:
    """What a server that sleeps does not give back: the weights go to host memory, which is the same memory.

    vLLM 0.33.0, device_allocator/cumem.py: level 1 copies them, level 2 drops them. SGLang 0.5.23,
    model_executor/model_runner_components/load_model_utils.py: only with --enable-weights-cpu-backup.
    """
    if not launch.sleeps:
        return ()
    kept = loaded_size(items) + size_of(items, "system and driver", "other services", "processes of the server")
    text = f"asleep, the node still has {gib(kept)} in use: CPU and GPU share the memory to which the weights go"
    if launch.engine == "vllm":
        text = f"{text}; level 2 drops them, and reads the files again"
    return (Problem(code="asleep", text=text, warning=True),)


def activations(model: Model, launch: Launch, machine: Machine, batched: int, rows: int) -> Item:
    """The larger of a step, a batch of tokens through one layer, and of so many rows of logits behind it."""
    fields = model.fields
    hidden, streams, words = 4096, 1, 150_000
    if fields is not None:
        hidden, words = fields.hidden, fields.vocabulary
        streams = fields.number("hc_mult", default=1, largest=64)
    step = batched * hidden * streams * machine.figures["activation_bytes"].value
    figure = "activation_bytes"
    if (
        fields is not None and streams == 1 and any(layer.feed != "dense" for layer in model.layers)
    ):  # the figure is of a model with four, whose experts are a sixth of it
        step += batched * _expert_bytes(fields, launch.ranks.tensor)
    if fields is not None and any(layer.mixer == "delta" for layer in model.layers):
        delta = batched * _delta_bytes(fields, launch.ranks.tensor) * machine.figures["activation_delta"].value
        step, figure = max((step, figure), (delta, "activation_delta"))
    logits = min(rows, batched) * words * machine.figures["logit_bytes"].value
    size, figure = max((step, figure), (logits, "logit_bytes"))
    return machine.item("activations", figure, ceil(size))


CHOSEN: Final = (
    "num_experts_per_tok",
    "num_experts_per_token",
    "top_k_experts",
    "moe_topk",
    "moe_k",
    "moe_top_k",
    "experts_per_token",
)
CHOSEN_OF: Final = {
    **{"llama4": 1, "cohere2_moe": 2, "granitemoe": 2, "granitemoehybrid": 2, "granitemoeshared": 2, "mixtral": 2},
    **{"nemotron_h": 2, "glm4_moe_lite": 4, "gpt_oss": 4, "lfm2_moe": 4, "minimax_m3_vl": 4, "qwen2_moe": 4},
    **{"afmoe": 6, "deepseek_v4": 6, "ernie4_5_moe": 6, "qwen3_next": 10},
}
"""Experts of a token where a config has no such field, in transformers 5.19.0; most others have 8."""


def _expert_bytes(fields: Fields, tensor: int) -> float:
    """Bytes of a token in the experts that it goes to: what gate and up give, their product, and the output, in two
    bytes each."""
    chosen = fields.number(*CHOSEN, default=CHOSEN_OF.get(fields.kind, 8), largest=1024)
    widths = 2 if fields.kind in TWO_MATRICES else 3
    return chosen * 2 * (widths * expert_size(fields) / tensor + (latent_size(fields) or fields.hidden))


def _delta_bytes(fields: Fields, tensor: int) -> float:
    """Bytes of a token in one gated delta network of a rank, as FLA's prefill in chunks of 64 has them at once.

    Two triangles of a chunk, keys and values of the chunk's form and new values, a state for each chunk; before and
    behind it the convolution's input, output and parts, the gate and the result.

    vLLM 0.33.0, third_party/flash_linear_attention/ops: chunk.py, wy_fast.py, chunk_delta_h.py, solve_tril.py.
    """
    heads, keys = fields.number("linear_num_value_heads"), fields.number("linear_num_key_heads")
    key, value = fields.number("linear_key_head_dim"), fields.number("linear_value_head_dim")
    inside = heads * (64 * (4 + 2) + 2 * (2 * value + key) + 2 * key * value / 64)
    around = 6 * (2 * keys * key + heads * value) + 4 * heads * value + 4 * keys * key
    return (inside + around) / tensor + 6 * fields.hidden


OFFLOADED: Final = "weights in host memory"
OFFLOADED_SOURCE: Final = (
    "--cpu-offload-gb: pinned host memory of the same node (vLLM 0.33.0, model_executor/offloader/uva.py; SGLang "
    "0.5.23, utils/offloader.py). CPU and GPU share it, so nothing is saved"
)
HOST_TIER: Final = "KV cache in host memory"
ROUNDED: Final = "rounding of pinned memory"
GROWN: Final = "taken while it loads"
"""Of the host, beside the weights: what SGLang finds gone between two readings of the free memory, which on a Spark
is the host's (SGLang 0.5.23, utils/common.py, get_available_gpu_memory)."""


def cache_item(name: str, size: int, model: Model) -> Item:
    """The cache, or the states of sequences."""
    known: Known = "published" if model.cache is not None else "computed"
    return Item(name=name, size=max(size, 0), known=known, source=model.cache_source)


def load_peak(model: Model, launch: Launch, machine: Machine, weights: int) -> int:
    """Bytes while the weights are read: beside them the loader's buffers, and a second form where one is made."""
    figures = machine.figures
    extra = loader_bytes(model, launch, machine, weights)
    # SGLang turns the whole numbers of AWQ and GPTQ into Marlin's form.
    rules = model.scheme.rules if model.scheme else ()
    if launch.engine == "sglang" and any(format.name in INTEGER_REPACK for _, format in rules):
        extra = max(extra, ceil(weights * figures["load_repack"].value))
    return figures["system"].size + machine.services + figures["processes"].size + weights + extra


def loader_bytes(model: Model, launch: Launch, machine: Machine, weights: int) -> int:
    """What a loader holds beside the weights; ``weights`` are those of the rank."""
    figures, kind = machine.figures, launch.loader.lower()
    file = model.largest_file or ceil(weights * figures["load_file"].value)
    file = min(file, model.total + model.drafts, weights if model.largest_file is None else file)
    if kind == "dummy":
        return 0
    if kind == "instanttensor":
        return min(figures["load_instanttensor"].size, weights)
    if kind.startswith("runai_streamer"):
        return min(launch.loader_limit or figures["load_streamer"].size, model.total + model.drafts)
    if kind == "fastsafetensors":  # vLLM reads a file while it hands on another; SGLang one after the other
        return file * (2 if launch.engine == "vllm" else 1)
    if launch.engine == "sglang" and not launch.mapped:
        return min(file * ((launch.loader_limit or THREADS) + 2), model.total + model.drafts)
    return file


def compilers_size(launch: Launch, machine: Machine) -> int:
    """Bytes that compilers of kernels take at a first start, beside what is loaded then."""
    return machine.figures["first_start" if launch.own_image else "first_start_other"].size


def load_problems(model: Model, launch: Launch, machine: Machine, weights: int) -> tuple[Problem, ...]:
    """The problem of a load that does not fit; a warning where only the assumed size of the files decides."""
    peak, available = load_peak(model, launch, machine, weights), machine.total - machine.figures["reserve"].size
    if peak <= available:
        return ()
    text = f"loading takes {gib(peak)} with the system, and a node can give {gib(available)}"
    bare = load_peak(model, replace(launch, loader="dummy"), machine, weights)
    assumed = bare <= available and model.largest_file is None and launch.loader != "instanttensor"
    if assumed:
        text = (
            f"{text}; what the loader holds beside the weights is assumed: --weights DIR reads the sizes of the files"
        )
    return (Problem(code="load-peak", text=text, warning=assumed),)


def over_reserve(items: Sequence[Item], machine: Machine, code: Code, *, spare: int = 0) -> tuple[Problem, ...]:
    """What no engine sees: the rest of the machine. A warning up to the whole of it, and ``spare`` bytes beyond.

    ``spare`` is what the items may be too large: vLLM's share holds part of what is assumed beside it.
    """
    used, available = sum(item.size for item in items), machine.total - machine.figures["reserve"].size
    if used <= available:
        return ()
    text = (
        f"the node would use {gib(used)} of {gib(machine.total)}, and {gib(machine.total - available)} should stay free"
    )
    if used - spare <= machine.total:
        text = f"{text}: such launches ran on some Sparks and hung others, as system and processes are assumed"
    return (Problem(code=code, text=text, warning=used - spare <= machine.total),)
