"""The sizes of a model: computed of its config, or those that the checkout knows."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import ConfigDict, Field, StringConstraints, model_validator

from gb10.core.fields import Model as Record
from gb10.core.installation import ROOT
from gb10.errors import UsageError
from gb10.models.memory.cache import Cache, NumberFormats, cache_of, merge_caches, number_formats
from gb10.models.memory.figures import GIB, Known
from gb10.models.memory.launch import Launch
from gb10.models.memory.shapes.config_fields import NO_CACHE, QUANTIZED, Config, Fields, Layer, layer_plan
from gb10.models.memory.shapes.decoder import FAMILIES, model_tensors
from gb10.models.memory.weights.scheme import Scheme, read_scheme
from gb10.models.memory.weights.weight import Part, Ranks, Weight, merge_weights, of_rank, stage_of, weight_of

FEW_BITS: Final = re.compile(
    r"(?:^|[-_./ ])(?:(?:nv|mx)?fp4|(?:mx)?fp8|w[48]a(?:4|8|16)|int[48]|awq|gptq|auto-?round|[48]-?bits?)(?=[-_. ]|$)",
    re.I,
)
"""Words in a model's name for weights of eight bits and fewer."""


LAYERS: Final = "the layers of its config"


@dataclass(frozen=True, kw_only=True, eq=False)
class Model:
    """``weights`` divide over the ranks; ``whole`` (bytes) is given in their place where only a total is known.

    ``known`` and ``source`` are of the weights. Without ``layers`` the cache is ``cache``, which is published.
    """

    name: str
    weights: tuple[Weight, ...] = ()
    whole: int | None = None
    whole_drafts: int = 0
    whole_repeated: int = 0
    """Bytes of ``whole`` that each rank keeps."""
    known: Known = "computed"
    source: str = "its config"
    fields: Fields | None = None
    layers: tuple[Layer, ...] = ()
    scheme: Scheme | None = None
    cache: Cache | None = None
    cache_ranks: int = 1
    """Ranks of the launch whose cache was published: fewer keep more of each token; more are not known to keep less."""
    cache_source: str = LAYERS
    kind: str = ""
    """The config's model type, where its layers are not known."""
    table: int = 0
    """Bytes of a table of embeddings that an engine can leave in a file; ``weights`` or ``whole`` count it."""
    largest_file: int | None = None
    """Bytes of the largest file of weights, where the files are there."""
    notes: tuple[str, ...] = ()
    """What a reader should know of the sizes."""
    draft: "Model | None" = None
    """The sizes of the launch's draft model, where they were read of its files."""

    @cached_property
    def total(self) -> int:
        """Bytes of the weights without drafts."""
        return sum(one.size for one in self.weights if one.part != "draft") if self.whole is None else self.whole

    @cached_property
    def drafts(self) -> int:
        """Bytes of the model's own draft layers."""
        return sum(one.size for one in self.weights if one.part == "draft") + self.whole_drafts

    def scaled(self, total: int, source: str) -> "Model":
        """The model with its weights scaled to a total of bytes, drafts included, that an index says."""
        factor = total / max(self.total + self.drafts, 1)
        weights = tuple(replace(one, size=round(one.size * factor)) for one in self.weights)
        return replace(self, weights=weights, source=source)

    def parts(self, launch: Launch, stage: int) -> Mapping[Part, int]:
        """Bytes by part on a rank of a stage; ``draft`` only where the launch drafts with the model's own layer."""
        ranks = launch.ranks
        table = self.table if launch.table_in_file else 0
        if self.whole is not None:
            shared = (self.whole - self.whole_repeated - table) // (ranks.tensor * ranks.stages)
            kept = self.whole_repeated // ranks.stages
            found: Mapping[Part, int] = {"other": shared + kept, "draft": self.whole_drafts // ranks.tensor}
        else:
            found = _divided(self, ranks, stage)
        left = {"table"} if table else set()
        if launch.text_only:
            left.add("vision")
        if launch.drafts is None or not launch.drafts.own:
            left.add("draft")
        return {part: size for part, size in found.items() if part not in left}

    def cache_on(self, launch: Launch, stage: int) -> Cache:
        """The cache of a rank of a stage, with that of the model's own draft layer or of a known draft model.

        Raises UsageError.
        """
        if self.cache is not None:
            more = max(self.cache_ranks / launch.ranks.tensor, 1.0)
            return replace(self.cache, token=self.cache.token * more, state=self.cache.state * more)
        drafts = launch.drafts
        heads_over = launch.ranks.tensor // launch.sequence_ranks if launch.engine == "sglang" else None
        kept = replace(
            number_formats(
                launch.cache_type, self.scheme.width if self.scheme else 2, self.file_type, launch.state_type
            ),
            heads_over=heads_over,
            unshared=launch.engine == "sglang",
        )
        found = _cache_on(self, launch.ranks, stage, kept, own=drafts is not None and drafts.own)
        draft = self.draft or known_model(drafts.model) if drafts is not None and not drafts.own else None
        if draft is None or not draft.layers or stage < launch.ranks.stages - 1:
            return found
        return merge_caches((found, _cache_on(draft, replace(launch.ranks, stages=1), 0, kept, own=False)))

    @cached_property
    def sees(self) -> bool:
        """Whether the model has an encoder for pictures."""
        return any(one.part == "vision" for one in self.weights)

    @property
    def file_type(self) -> str | None:
        """The type of the cache that the model file was made for."""
        return self.scheme.cache if self.scheme else None


@lru_cache(maxsize=256)
def _divided(model: Model, ranks: Ranks, stage: int) -> Mapping[Part, int]:
    """A rank's bytes by part; looked at many times while a launch that fits is searched."""
    kv_heads = model.fields.kv_heads if model.fields else ranks.tensor
    return of_rank(model.weights, ranks, stage, len(model.layers) or 1, kv_heads)


@lru_cache(maxsize=256)
def _cache_on(model: Model, ranks: Ranks, stage: int, kept: NumberFormats, *, own: bool) -> Cache:
    """A rank's cache: of its layers, and on the last stage of the draft layer."""
    if model.fields is None or not model.layers:
        kind = f" (model type '{model.kind[:80]}')" if model.kind else ""
        found = f"its weights take {(model.total + model.drafts) / GIB:.1f} GiB, by {model.source}"
        raise UsageError(
            f"the layers of {model.name}{kind} are not known, so its KV cache is not", where=found, hint=NO_CACHE
        )
    count = len(model.layers)
    mine = [layer for layer in model.layers if stage_of(layer.number, count, ranks.stages) == stage]
    if own and stage == ranks.stages - 1:
        like = [layer for layer in reversed(model.layers) if layer.mixer in ("full", "latent", "compressed")][:1]
        mine += [replace(layer, number=count) for layer in like]  # DeepSeek-V4 lists its ratio behind the others
    return cache_of(model.fields, mine, ranks.tensor, kept)


def model_of(config: Config, name: str, source: str) -> Model:
    """A model by its config alone; raises UsageError for a family or a quantization that is not known."""
    fields, scheme = Fields(config), read_scheme(config)
    tensors = model_tensors(config, name)
    weights = merge_weights(weight_of(tensor.name, scheme.size(tensor), fields.layers) for tensor in tensors)
    layers, notes = layer_plan(fields), _unsaid(name, scheme)
    return Model(
        name=name,
        weights=weights,
        known="assumed" if notes else "computed",
        source=source,
        fields=fields,
        layers=layers,
        scheme=scheme,
        table=sum(one.size for one in weights if one.part == "table"),
        notes=notes,
    )


def _unsaid(name: str, scheme: Scheme) -> tuple[str, ...]:
    """The note of a model whose name says that it has few bits, and whose config does not."""
    few_bits = FEW_BITS.search(name)
    if scheme.rules or few_bits is None:
        return ()
    return (
        f"the name says {few_bits[0].strip('-_. ')}, and the config has no quantization: all weights are counted with "
        f"{8 * scheme.width} bits. ModelOpt keeps the quantization in {QUANTIZED}: put it beside config.json",
    )


def with_sizes(
    config: Config | None, sizes: Iterable[tuple[str, int]], name: str, source: str, *, largest_file: int | None = None
) -> Model:
    """A model by the bytes of its tensors; its config gives the layers.

    Of an unknown family each layer is counted as attention that keeps all tokens, which is the most that a layer of
    attention keeps; the cache of one with other layers is unknown.
    """
    fields = Fields(config) if config is not None else None
    known = fields is not None and fields.kind in FAMILIES
    encoder = fields is not None and fields.kind in ENCODERS
    count = fields.layers if fields is not None else 1 << 16
    weights = merge_weights(weight_of(tensor, size, count) for tensor, size in sizes)
    layers = () if fields is None else layer_plan(fields) if known else _attention_alone(fields)
    scheme = read_scheme(config, weights_read=True) if layers and config is not None else None
    assumed = f"each layer as full attention: the model type '{fields.kind[:80]}' is not known" if fields else ""
    return Model(
        name=name,
        weights=weights,
        source=source,
        fields=fields if layers else None,
        layers=layers,
        scheme=scheme,
        notes=(f"{scheme.unknown}: what an engine makes of the weights while it loads them is not checked",)
        if scheme and scheme.unknown
        else (),
        kind=fields.kind if fields is not None and not known else "",
        largest_file=largest_file,
        table=sum(one.size for one in weights if one.part == "table"),
        cache=Cache() if encoder else None,
        cache_source="an encoder keeps nothing of a request" if encoder else LAYERS if known else assumed,
    )


ENCODERS: Final = frozenset(
    ("bert", "roberta", "xlm-roberta", "camembert", "distilbert", "electra", "modernbert", "nomic_bert", "gte", "new")
)
"""Types of encoders: each token sees all others at once, so nothing is kept of a request."""
OTHER_LAYERS: Final = re.compile(
    r"mamba|ssm|d_state|state_size|conv|linear_(?:attn|num|key|value|head)|kda|delta|gla_|lru|rwkv|recurrent|hyena|xlstm"
    r"|lightning|retention|attn_type_list|block_types|is_encoder_decoder"
)
"""Fields of layers that keep a state in place of tokens, or tokens of an encoder, too."""


def _attention_alone(fields: Fields) -> tuple[Layer, ...]:
    """The layers of an unknown family whose config describes attention and nothing else; else none."""
    if any(OTHER_LAYERS.search(name) and value for name, value in fields.text.items()):
        return ()
    try:
        plan = layer_plan(fields)
    except UsageError:  # a kind of layer that nobody here knows
        return ()
    return tuple(replace(one, mixer="full" if one.mixer == "window" else one.mixer) for one in plan)


FOLDER: Final = ROOT / "recipes/models/configs"
MIB: Final = 1 << 20
Number = Annotated[float | int, Field(gt=0, le=1 << 40)]
Text = Annotated[str, StringConstraints(min_length=10, max_length=400)]


class _Part(Record):
    """Keys have underscores, as everywhere beside model recipes."""

    model_config = ConfigDict(alias_generator=None)


class Published(_Part):
    """Sizes in place of computed ones: of all weights, and on each of ``ranks`` nodes bytes of a token, MiB of a state.

    ``table_gib`` and ``repeated_gib`` are parts of ``weights_gib``: a table of embeddings that an engine can leave in
    a file, and what each rank keeps whole.
    """

    weights_gib: Number | None = None
    draft_gib: Number | None = None
    table_gib: Number | None = None
    repeated_gib: Number | None = None
    token_bytes: Number | None = None
    state_mib: Number | None = None
    ranks: Annotated[int, Field(ge=1, le=64)] = 1


class KnownModel(_Part):
    """One file: a model, where its figures are from, an excerpt of its config, and published sizes in their place."""

    model: str
    source: Annotated[tuple[Text, ...], Field(min_length=1, max_length=8)]
    config: dict[str, Any] | None = None
    published: Published | None = None

    @model_validator(mode="after")
    def _has_sizes(self) -> "KnownModel":
        found = self.published
        if self.config is None and (found is None or found.weights_gib is None or found.token_bytes is None):
            raise ValueError("a file has a config, or published.weights_gib and published.token_bytes")
        return self


def known_names() -> list[str]:
    """The models that the checkout has sizes of."""
    return sorted(path.stem.replace("--", "/", 1) for path in FOLDER.glob("*.json"))


@cache
def known_model(name: str) -> Model | None:
    """The sizes of a model by its name on the Hub; None when the checkout has none. Raises UsageError."""
    return read_known(FOLDER / f"{name.replace('/', '--', 1)}.json") if name in known_names() else None


@cache
def known_config(name: str) -> Mapping[str, Any]:
    """The excerpt of a model's config.json by its name on the Hub; empty when the checkout has none."""
    return _read(FOLDER / f"{name.replace('/', '--', 1)}.json").config or {} if name in known_names() else {}


def read_known(path: Path) -> Model:
    """The model of a file of sizes; raises UsageError for one that is not valid."""
    found = _read(path)
    source = f"the config in {path.name}"
    computed = model_of(found.config, found.model, source) if found.config is not None else Model(name=found.model)
    return published(computed, found.published, "; ".join(found.source))


def _read(path: Path) -> KnownModel:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return KnownModel.model_validate({**content, "source": tuple(content["source"])})
    except (ValueError, TypeError, KeyError) as error:
        raise UsageError(f"{path.name} is not a file of a model's sizes", where=str(error)[:400]) from error


def published(model: Model, sizes: Published | None, source: str) -> Model:
    """A model with published sizes in place of computed ones."""
    if sizes is None:
        return model
    if sizes.token_bytes is not None:
        cache = Cache(token=float(sizes.token_bytes), state=(sizes.state_mib or 0) * MIB)
        model = replace(model, cache=cache, cache_ranks=sizes.ranks, cache_source=source)
    if sizes.weights_gib is None:
        return model
    whole, drafts = round(sizes.weights_gib * GIB), round((sizes.draft_gib or 0) * GIB)
    return replace(
        model,
        whole=whole,
        whole_drafts=drafts,
        whole_repeated=round((sizes.repeated_gib or 0) * GIB),
        table=round((sizes.table_gib or 0) * GIB),
        known="published",
        source=source,
    )
