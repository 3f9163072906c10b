"""Items that both engines have: the machine, weights, drafts, activations. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Final

from gb10.models.memory.engines.budget import Code, Item, Problem, gib
from gb10.models.memory.engines.kernel_padding import padding
from gb10.models.memory.figures import GIB, Figure, Known
from gb10.models.memory.launch import Launch
from gb10.models.memory.model import Model

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
    """Weights as the kernels keep them, and the draft model."""
    parts = model.parts(launch, stage)
    size = sum(found for part, found in parts.items() if part != "draft")
    more, source = padding(model, launch, stage), model.source
    if more.size:
        source = f"{source}; {gib(more.size)} of it are padding: kernels take {more.words or 'larger tiles'}"
    items = [Item(name="weights", size=size + more.size, known=model.known, source=source)]
    if parts.get("draft"):
        own = Item(name="draft layer", size=parts["draft"], known=model.known, source=model.source)
        items.append(own)
    drafts = launch.drafts
    if drafts is not None and not drafts.own:
        known: Known = "computed" if drafts.size is not None else "assumed"
        source = f"files of {drafts.model}" if drafts.size is not None else f"{drafts.model}: a draft of 1.5 GiB"
        items.append(Item(name="draft model", size=drafts.size or 3 * GIB // 2, known=known, source=source))
    return tuple(items)


def activations(model: Model, launch: Launch, machine: Machine, batched: int, requests: int) -> Item:
    """The largest step: a batch of tokens through one layer, and the logits of all requests with their drafts."""
    fields = model.fields
    hidden, streams, words = 4096, 1, 150_000
    if fields is not None:
        hidden, words = fields.hidden, fields.vocabulary
        streams = fields.number("hc_mult", default=1, largest=64)
    step = batched * hidden * streams * machine.figures["activation_bytes"].value
    rows = min(requests * (1 + (launch.drafts.tokens if launch.drafts else 0)), batched)
    logits = rows * words * machine.figures["logit_bytes"].value
    return machine.item("activations", "activation_bytes", ceil(step + logits))


def cache_item(name: str, size: int, model: Model) -> Item:
    """The cache, or the states of sequences."""
    known: Known = "published" if model.cache is not None else "computed"
    return Item(name=name, size=max(size, 0), known=known, source=model.cache_source)


def load_peak(model: Model, launch: Launch, machine: Machine, weights: int) -> int:
    """Bytes while the weights are read: beside them the loader's buffers, and a second form where one is made."""
    figures = machine.figures
    extra = loader_bytes(model, launch, machine, weights)
    if launch.engine == "sglang" and _is_repacked(model):
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


def _is_repacked(model: Model) -> bool:
    """Whether the weights are whole numbers of AWQ or GPTQ, which SGLang turns into Marlin's form."""
    rules = model.scheme.rules if model.scheme else ()
    return any(format.name in INTEGER_REPACK for _, format in rules)


def start_peak(launch: Launch, machine: Machine, before: int) -> int:
    """Bytes while kernels are compiled at a first start, beside what is loaded then."""
    figure = "first_start" if launch.own_image else "first_start_other"
    return before + machine.figures[figure].size


def load_problems(model: Model, launch: Launch, machine: Machine, weights: int) -> tuple[Problem, ...]:
    """The problem of a load that does not fit; a warning where only the assumed size of the files decides."""
    peak, room = load_peak(model, launch, machine, weights), machine.total - machine.figures["reserve"].size
    if peak <= room:
        return ()
    text = f"loading takes {gib(peak)} with the system, and a node can give {gib(room)}"
    bare = load_peak(model, replace(launch, loader="dummy"), machine, weights)
    assumed = bare <= room and model.largest_file is None and launch.loader != "instanttensor"
    if assumed:
        text = (
            f"{text}; what the loader holds beside the weights is assumed: --weights DIR reads the sizes of the files"
        )
    return (Problem(code="load-peak", text=text, warning=assumed),)


def over_reserve(items: Sequence[Item], machine: Machine, code: Code, *, spare: int = 0) -> tuple[Problem, ...]:
    """What no engine sees: the rest of the machine. A warning up to the whole of it, and ``spare`` bytes beyond.

    ``spare`` is what the items may be too large: vLLM's share holds part of what is assumed beside it.
    """
    used, room = sum(item.size for item in items), machine.total - machine.figures["reserve"].size
    if used <= room:
        return ()
    text = f"the node would use {gib(used)} of {gib(machine.total)}, and {gib(machine.total - room)} should stay free"
    if used - spare <= machine.total:
        text = f"{text}: such launches ran on some Sparks and hung others, as system and processes are assumed"
    return (Problem(code=code, text=text, warning=used - spare <= machine.total),)
