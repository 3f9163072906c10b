"""SGLang's cache of DeepSeek-V4 and V4.1: a price of each token, and pools that the number of requests decides. Pure.

As in DSV4PoolConfigurator of model_executor/pool_configurator.py, in SGLang 0.5.12, 0.5.15, 0.5.18, 0.5.20, 0.5.21 and
0.5.23. Logs of May and August 2026 have bytes_per_full_token 15955.85 and 7705.45 for DeepSeek-V4-Flash.
"""

from collections import Counter
from collections.abc import Sequence
from math import ceil
from typing import Final

from packaging.version import Version

from gb10.models.memory.cache import PAGE_STEP, SMALL_LATENT
from gb10.models.memory.launch import Launch
from gb10.models.memory.shapes.config_fields import Fields, Layer
from gb10.models.memory.shapes.layers import ratio_of
from gb10.models.memory.weights.weight import stage_of

OF_REQUESTS: Final = Version("0.5.13")
"""From here on the states of the high ratio belong to requests, no longer to tokens; which of 0.5.13 to 0.5.15 was the
first was not looked at."""
BY_PAGE: Final = Version("0.5.21")
"""From here on pages are counted with their padding, and the number of requests decides what the windows hold."""
PAGE: Final = 256
REQUESTS: Final = 256
CHUNK: Final = 8192
WINDOW_SHARE: Final = 0.1
"""Defaults for this family (arg_groups/deepseek_v4_hook.py, arg_groups/model_overrides/deepseek_v4.py): tokens of a
page, requests, tokens of a step, and tokens of the windows for each token of the cache."""
EVICTION: Final = 128
"""SGLANG_SWA_EVICTION_INTERVAL."""
TAILS: Final = 4
"""Ends of prefixes that are kept for each request."""
HIGH: Final = 128


def compressed_price(fields: Fields, layers: Sequence[Layer], launch: Launch, stage: int) -> tuple[float, int]:
    """Bytes of a token, and bytes that no token changes, on a rank of a stage of these layers. Raises UsageError.

    A window is priced for each layer. A layer of the low ratio has entries, an index in FP8 with a scale of four bytes,
    and, for each page of a window, a ring of the compressor's keys and scores in FP32; one of the high ratio has
    entries, and a ring for each request. V4.1's ratios 1 and 2 have entries, and an index in FP4. One layer of drafts
    counts as an average one.
    """
    mine = [layer for layer in layers if stage_of(layer.number, len(layers), launch.ranks.stages) == stage]
    ratios = Counter(ratio_of(fields, layer) for layer in mine)
    by_page, of_requests = launch.may_be_from(BY_PAGE), launch.may_be_from(OF_REQUESTS)
    head, index = fields.number("head_dim", default=512), fields.number("index_head_dim")
    window = fields.number("sliding_window", default=128)
    count = len(mine) if of_requests else max(len(fields.entries("compress_ratios")), len(mine))
    drafts = launch.drafts.tokens if launch.drafts else 0
    requests = launch.requests or REQUESTS
    rings = 2 if drafts else 1  # twice as long where tokens may be rejected

    ring = 8 * rings / (PAGE if by_page else window) * 4 * (head + index) * 4
    of_window = count * _entry(PAGE, by_page=by_page) + ratios[4] * ring
    if not of_requests:
        of_window += ratios[HIGH] * HIGH * rings / window * 2 * head * 4
    token = ratios[4] * (_entry(PAGE // 4, by_page=by_page) + index + 4) / 4
    token += ratios[HIGH] * _entry(PAGE // HIGH, by_page=by_page) / HIGH
    token += sum(ratios[low] * (_entry(PAGE // low, by_page=by_page) + index / 2 + index / 32) / low for low in (1, 2))
    fixed = 0.0
    if of_requests:
        rows = ceil(((requests + 1) * HIGH * rings + HIGH * rings + 1) / HIGH) * HIGH
        fixed += rows * 2 * head * 4 * ratios[HIGH]
    inflated = 1 + 1 / len(mine) if drafts else 1.0
    if by_page and launch.window_share is None:
        each = window + EVICTION * max(drafts, 1) + 2 * PAGE + TAILS * (window + PAGE)
        held = ceil((each * requests + 2 * (launch.batched or CHUNK) + PAGE) / PAGE) * PAGE
        fixed += held * of_window * inflated
    else:
        token += (launch.window_share or WINDOW_SHARE) * of_window
    return token * inflated, ceil(fixed)


def _entry(tokens: int, *, by_page: bool) -> float:
    """Bytes of an entry in a page of so many tokens."""
    return ceil(tokens * SMALL_LATENT / PAGE_STEP) * PAGE_STEP / tokens if by_page else SMALL_LATENT
