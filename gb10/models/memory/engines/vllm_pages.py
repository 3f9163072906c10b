"""What a request takes of vLLM's KV cache: layers of several kinds share one pool of pages of one size. Pure.

As in v1/core/kv_cache_planning.py, v1/kv_cache_interface.py and platforms/interface.py of vLLM 0.33. A page belongs to
a group of as many layers as the rarest kind has; other kinds get several groups, the last of them with padding.
"""

from collections import Counter
from dataclasses import dataclass, replace
from math import ceil, lcm
from typing import Final

from packaging.version import InvalidVersion, Version

from gb10.models.memory.cache import Cache, CacheLayer
from gb10.models.memory.launch import Launch

BLOCK: Final = 16
"""Tokens of a page, unless an option or a state asks for more."""
LATENT_BLOCK: Final = 128
"""What a page of latent heads beside states is a multiple of."""
CLOSE: Final = 1.5
"""Kinds whose numbers of layers are closer than this share groups of the larger number."""
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
    kinds = _with_equal_pages(_kinds(cache, launch)) if cache.layers else ()
    if not kinds:
        drafts = launch.drafts.tokens if launch.drafts else 0
        return cache.of_request(length, ahead=min(batched, length), copies=1 + drafts)
    fewest, most = min(kind.count for kind in kinds), max(kind.count for kind in kinds)
    group = most if most < fewest * CLOSE else fewest
    pages = sum(ceil(kind.count / group) * _pages(kind, launch, length, batched) for kind in kinds)
    return ceil(pages * group * kinds[0].page)


def padding_share(cache: Cache, launch: Launch) -> float:
    """The share of the pool that padding layers may waste; 0 without them."""
    kinds = _kinds(cache, launch) if cache.layers else ()
    if len(kinds) < 2:
        return 0.0
    fewest, most = min(kind.count for kind in kinds), max(kind.count for kind in kinds)
    group = most if most < fewest * CLOSE else fewest
    return max((ceil(kind.count / group) * group - kind.count) / kind.count for kind in kinds)


def _kinds(cache: Cache, launch: Launch) -> tuple[_Kind, ...]:
    """The kinds of layers, each with its own page: a page of tokens is as large as a state at least."""
    drafts = launch.drafts.tokens if launch.drafts else 0
    counted = Counter(cache.layers)
    states = [layer.size + drafts * layer.step for layer in counted if layer.kind == "state"]
    heads = [layer for layer in counted if layer.kind != "state"]
    block = launch.block or BLOCK
    if states and heads:
        each = max(layer.size for layer in heads)
        least = max(block, LATENT_BLOCK) if any(layer.latent for layer in heads) else block
        least = lcm(least, *(layer.checkpoint for layer in counted if _keeps_checkpoint(layer, launch)))
        block = max(block, least * ceil(max(states) / (least * each)))
    return tuple(
        _Kind(layer=layer, count=count, block=0, page=layer.size + drafts * layer.step)
        if layer.kind == "state"
        else _Kind(layer=layer, count=count, block=block, page=layer.size * block)
        for layer, count in counted.items()
    )


def _with_equal_pages(kinds: tuple[_Kind, ...]) -> tuple[_Kind, ...]:
    """Smaller pages take as many tokens more as fit whole, else they are padded."""
    largest = max((kind.page for kind in kinds), default=0.0)
    return tuple(
        replace(
            kind, page=largest, block=kind.block * int(largest / kind.page) if largest % kind.page == 0 else kind.block
        )
        for kind in kinds
    )


def _pages(kind: _Kind, launch: Launch, length: int, batched: int) -> int:
    """Pages of one layer for one request."""
    layer = kind.layer
    if layer.kind == "state":
        kept = 2 + _keeps_checkpoint(layer, launch) if launch.prefix_caching else 1
        return kept + (launch.drafts.tokens if launch.drafts else 0)
    flying = batched * _steps(launch)
    if layer.kind == "window":
        return ceil(min(layer.window - 1 + flying, length) / kind.block) + 1
    kept = min(layer.window + flying, length) if layer.kind == "chunk" else length
    return ceil(kept / kind.block)


def _keeps_checkpoint(layer: CacheLayer, launch: Launch) -> bool:
    return bool(layer.checkpoint) and launch.prefix_caching and _is_from(launch.release, CHECKPOINTS)


def _is_from(release: str, first: Version) -> bool:
    try:
        return not release or Version(release) >= first
    except InvalidVersion:
        return True


def _steps(launch: Launch) -> int:
    """Steps that are scheduled and not yet settled."""
    if not _is_from(launch.release, TWO_STEPS):
        return 1
    return launch.ranks.stages if launch.ranks.stages > 1 else 1 + launch.scheduled_ahead
