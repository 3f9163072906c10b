"""The bytes of a cache, its types and its division over ranks are those of vLLM's own code."""

import json
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from gb10.image.context import Context
from gb10.models.memory.cache import Cache, CacheLayer, NumberFormats, number_formats
from gb10.models.memory.engines.vllm import request_bytes
from gb10.models.memory.launch import Launch
from gb10.models.memory.weights.weight import Ranks
from tests.e2e.test_chosen_commands import engine_files, inside

pytestmark = pytest.mark.e2e
TYPES = ("auto", "fp8", "nvfp4", "nvfp4_4over6", "int4_per_token_head", "int8_per_token_head", "fp8_per_token_head")
LENGTHS = (1, 16, 4096, 100_001)


def bytes_of(row: dict[str, object], kept: NumberFormats) -> int:
    """What an estimate counts for one layer and one request of a row."""
    heads, key, value = (int(str(row[name])) for name in ("heads", "key", "value"))
    size = heads * ((key + value) * kept.number + 2 * kept.per_head)
    layer = CacheLayer(kind="full", size=size, latent=row["kind"] == "latent")
    ranks = int(str(row["ranks"]))
    launch = Launch(engine="vllm", release="0.33.0", ranks=Ranks(tensor=8), sequence_ranks=ranks)
    launch = replace(launch, block=int(str(row["block"])))
    return request_bytes(Cache(token=size, layers=(layer,)), launch, int(str(row["length"])), 2048)


def test_pages_of_a_request_are_those_of_vllms_specs(ctx: Context, tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {
            "kind": "full",
            "heads": 2,
            "key": key,
            "value": value,
            "cache": word,
            "length": length,
            "block": block,
            "ranks": ranks,
        }
        for (key, value), word, length, block, ranks in product(
            ((128, 128), (256, 256), (192, 128)), TYPES, LENGTHS, (16, 64), (1, 2, 4)
        )
    ]
    rows += [
        {
            "kind": "latent",
            "heads": 1,
            "key": 576,
            "value": 0,
            "cache": word,
            "length": length,
            "block": 64,
            "ranks": ranks,
        }
        for word, length, ranks in product(("auto", "fp8"), LENGTHS, (1, 2, 8))
    ]
    theirs = inside("cache_sizes.py", given=json.dumps(rows), engine=engine_files(ctx, "vllm", tmp_path))
    ours = [bytes_of(row, number_formats(str(row["cache"]), 2, None)) for row in rows]
    assert len(theirs) == len(rows) > 500
    assert [(row, one, other) for row, one, other in zip(rows, ours, theirs, strict=True) if one != other] == []
