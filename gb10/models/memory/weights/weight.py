"""A tensor's bytes, which part of the model it is, and how the nodes of a launch divide it. Pure."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

Part = Literal["attention", "experts", "dense", "embedding", "table", "head", "vision", "draft", "other"]
Split = Literal["tensor", "keys", "none"]
"""``tensor``: in as many parts as ranks; ``keys``: by key heads, which fewer than ranks repeat; ``none``: repeated."""
LAYER: Final = re.compile(r"(?:^|\.)(?:layers|h|blocks)\.(\d+)\.")
RULES: Final[Sequence[tuple[re.Pattern[str], Part, Split]]] = (
    (
        re.compile(r"(^|\.)(visual|vision_\w+|embed_vision|audio_\w+|multi_modal_projector|mm_\w+|patch_\w+)(\.|$)"),
        "vision",
        "tensor",
    ),
    (re.compile(r"(^|\.)(engram\.embed|ple\.\w*ngram\w*|\w*ngram_embedding)(\.|$)"), "table", "tensor"),
    (re.compile(r"\.experts\."), "experts", "tensor"),
    (re.compile(r"(embed_tokens|embeddings|word_embeddings|wte|^embed\b)"), "embedding", "tensor"),
    (re.compile(r"(^|\.)(lm_head|shared_head|head)(\.|$)"), "head", "tensor"),
    (re.compile(r"(norm|layernorm)"), "other", "none"),
    (re.compile(r"\.(gate|router|shared_expert_gate)(\.|$)"), "other", "none"),
    (
        re.compile(
            r"\.(q_a_proj|kv_a_proj_with_mqa|wq_a|wkv|wgate|indexer|compressor|hc_\w+|\w*hyper_connection|fc[12]_latent_proj"
            r"|routed_expert_\w+)"
        ),
        "attention",
        "none",
    ),
    (re.compile(r"(self_attn|attn|mixer|attention)\.(k_proj|v_proj)"), "attention", "keys"),
    (re.compile(r"(self_attn|linear_attn|attn|attention|mixer)\."), "attention", "tensor"),
    (re.compile(r"."), "dense", "tensor"),
)
"""The first that fits decides: what vLLM 0.33 and SGLang 0.5.23 split over ranks, and what each rank keeps whole."""
DRAFT: Final = re.compile(r"(^|\.)(mtp|nextn)(\.|_|$)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Weight:
    """``size`` is in bytes; ``layer`` is None outside of the decoder's layers."""

    part: Part
    split: Split
    layer: int | None
    size: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranks:
    """``tensor`` ranks divide each layer, ``stages`` divide the layers, one node each. ``copies`` are whole replicas
    that share only their experts (``expert_copies`` is then how many divide those)."""

    tensor: int = 1
    stages: int = 1
    expert_copies: int = 1


def weight_of(name: str, size: int, layers: int) -> Weight:
    """A tensor of a model file with ``layers`` layers: what follows them are drafts."""
    found = LAYER.search(name)
    number = int(found[1]) if found and len(found[1]) < 6 else None
    part, split = next((part, split) for pattern, part, split in RULES if pattern.search(name))
    if DRAFT.search(name) or (number is not None and number >= layers and part != "vision"):
        return Weight(part="draft", split=split, layer=None, size=size)
    return Weight(part=part, split=split, layer=None if part == "vision" else number, size=size)


def merge_weights(weights: Iterable[Weight]) -> tuple[Weight, ...]:
    """The weights with those that are divided alike as one: some models have 100,000 tensors."""
    sizes: Counter[tuple[Part, Split, int | None]] = Counter()
    for one in weights:
        sizes[one.part, one.split, one.layer] += one.size
    return tuple(Weight(part=part, split=split, layer=layer, size=size) for (part, split, layer), size in sizes.items())


def stage_of(layer: int, layers: int, stages: int) -> int:
    """The pipeline stage of a layer. What is left over goes to the stages before the last, as in vLLM.

    SGLang gives it to the last stages: there the largest stage has as many layers, and the output, too.
    """
    each, left = divmod(layers, stages)
    sizes = [each + (stages - 1 - left <= stage < stages - 1) for stage in range(stages)]
    for stage, size in enumerate(sizes):
        if layer < size:
            return stage
        layer -= size
    return stages - 1


def of_rank(weights: Iterable[Weight], ranks: Ranks, stage: int, layers: int, kv_heads: int) -> Mapping[Part, int]:
    """Bytes by part that one rank of a stage keeps. The first stage has the embedding, the last one the output."""
    found: dict[Part, float] = {}
    for one in weights:
        if _is_on(one, stage, ranks.stages, layers):
            found[one.part] = found.get(one.part, 0) + one.size / _parts(one, ranks, kv_heads)
    return {part: round(size) for part, size in found.items()}


def _is_on(one: Weight, stage: int, stages: int, layers: int) -> bool:
    if one.layer is not None:
        return stage_of(one.layer, layers, stages) == stage
    return stage == (0 if one.part in ("embedding", "vision", "table") else stages - 1)


def _parts(one: Weight, ranks: Ranks, kv_heads: int) -> int:
    if one.split == "none":
        return 1
    if one.split == "keys":
        return min(ranks.tensor, max(kv_heads, 1))
    return ranks.tensor * (ranks.expert_copies if one.part == "experts" else 1)
