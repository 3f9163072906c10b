"""Items that both engines have: the machine, weights, drafts, activations. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Final

from gb10.memory.cache import Cache
from gb10.memory.engines.budget import Item, Problem, gib
from gb10.memory.figures import GIB, Figure, Known
from gb10.memory.launch import Launch
from gb10.memory.model import Model

PARTS: Final = ("experts", "attention", "dense", "embedding", "head", "vision", "other")
INTEGER_REPACK: Final = ("int4", "int8")


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
    """Weights and the draft model."""
    parts = model.parts(launch, stage)
    size = sum(found for part, found in parts.items() if part != "draft")
    items = [Item(name="weights", size=size, known=model.known, source=model.source)]
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
    """The largest step: a batch of tokens through one layer, and the logits of all requests."""
    fields = model.fields
    hidden, streams, words = 4096, 1, 150_000
    if fields is not None:
        hidden, words = fields.hidden, fields.vocabulary
        streams = fields.number("hc_mult", default=1, largest=64)
    step = batched * hidden * streams * machine.figures["activation_bytes"].value
    logits = requests * words * machine.figures["logit_bytes"].value
    return machine.item("activations", "activation_bytes", ceil(step + logits))


def cache_item(name: str, size: int, model: Model) -> Item:
    """The cache, or the states of sequences."""
    known: Known = "published" if model.cache is not None else "computed"
    return Item(name=name, size=max(size, 0), known=known, source=model.cache_source)


def load_peak(model: Model, launch: Launch, machine: Machine, weights: int) -> int:
    """Bytes while the weights are read: beside them the loader's buffers, and a second form where one is made."""
    figures = machine.figures
    extra = figures["load_instanttensor"].size if launch.loader == "instanttensor" else figures["load_buffers"].size
    if launch.engine == "sglang" and _is_repacked(model):
        extra += ceil(weights * figures["load_repack"].value)
    return figures["system"].size + machine.services + figures["processes"].size + weights + extra


def _is_repacked(model: Model) -> bool:
    """Whether the weights are whole numbers of AWQ or GPTQ, which SGLang turns into Marlin's form."""
    rules = model.scheme.rules if model.scheme else ()
    return any(format.name in INTEGER_REPACK for _, format in rules)


def start_peak(launch: Launch, machine: Machine, before: int) -> int:
    """Bytes while kernels are compiled at a first start, beside what is loaded then."""
    figure = "first_start" if launch.own_image else "first_start_other"
    return before + machine.figures[figure].size


def load_problems(peak: int, machine: Machine) -> tuple[Problem, ...]:
    """The problem of a load that does not fit."""
    room = machine.total - machine.figures["reserve"].size
    if peak <= room:
        return ()
    text = f"loading takes {gib(peak)} with the system, and a node can give {gib(room)}"
    return (Problem(code="load-peak", text=text),)


def request_size(cache: Cache, launch: Launch, length: int, batched: int) -> int:
    """Bytes of a request of full length; the states of tokens that may be rejected count, too."""
    ahead = min(batched, length)
    copies = 1 + (launch.drafts.tokens if launch.drafts else 0)
    return cache.of_request(length, ahead=ahead, copies=copies)
