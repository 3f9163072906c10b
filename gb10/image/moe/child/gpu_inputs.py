"""Inputs of both GEMMs of a mixture on a GPU: weights once, tokens and routing for each batch size, in real tensors."""

import math
from dataclasses import dataclass
from typing import Any

import torch  # type: ignore[import-not-found]

FP8 = torch.float8_e4m3fn
BYTES = {"fp8_w8a8": 1, "int8_w8a8": 1, None: 2}
"""Bytes of a weight, for the types that can be tuned."""
ROUTINGS = ("uniform", "skewed")


@dataclass
class Weights:
    """``up``: E x 2N x K and ``down``: E x K x N, each with the scales that its type has."""

    up: Any
    down: Any
    up_scale: Any
    down_scale: Any


@dataclass
class Batch:
    """Tokens for both GEMMs, and for each routing the experts of each token: size x topk."""

    size: int
    left: dict[str, Any]
    scales: dict[str, Any]
    ids: dict[str, list[Any]]


def needed_bytes(shape: dict[str, Any], hidden: int, topk: int, most: int) -> int:
    """Bytes of the weights, and of tokens and results of the largest batch."""
    weights: int = 3 * shape["E"] * shape["N"] * hidden * BYTES[shape["dtype"]]
    return weights + 4 * most * topk * (2 * int(shape["N"]) + hidden)


def make_weights(shape: dict[str, Any], hidden: int, seed: int) -> Weights:
    """Random weights, made expert by expert: nothing twice as large lies beside them."""
    count, wide = shape["E"], shape["N"]
    made = {}
    for name, rows, columns in (("up", 2 * wide, hidden), ("down", hidden, wide)):
        made[name] = torch.empty((count, rows, columns), dtype=_kind(shape["dtype"]), device="cuda")
        source = torch.Generator(device="cuda").manual_seed(seed)
        for expert in range(count):
            made[name][expert] = _random((rows, columns), shape["dtype"], source)
        made[f"{name}_scale"] = _weight_scale(shape, rows, columns)
    return Weights(**made)


def make_batch(shape: dict[str, Any], hidden: int, topk: int, *, size: int, draws: int, seed: int) -> Batch:
    """Tokens, and ``draws`` routings of each kind: a kernel does not find the last one's experts in a cache."""
    source = torch.Generator(device="cuda").manual_seed(seed + size)
    left = {
        "up": _random((size, hidden), shape["dtype"], source),
        "down": _random((size * topk, shape["N"]), shape["dtype"], source),
    }
    scales = {gemm: _token_scale(shape, tokens) for gemm, tokens in left.items()}
    ids = {kind: [route(kind, shape["E"], topk, size, source) for _ in range(draws)] for kind in ROUTINGS}
    return Batch(size=size, left=left, scales=scales, ids=ids)


def route(kind: str, experts: int, topk: int, size: int, source: Any) -> Any:
    """``topk`` different experts for each token: all equally likely, or as 1/rank, as trained routers do."""
    weights = torch.ones(experts, device="cuda")
    if kind == "skewed":
        weights = 1 / torch.arange(1, experts + 1, device="cuda").float()
        weights = weights[torch.randperm(experts, generator=source, device="cuda")]
    chance = torch.rand((size, experts), generator=source, device="cuda").clamp_min(1e-12)
    return (torch.log(chance) / weights).topk(topk, dim=1).indices.to(torch.int32)


def aligned(ids: Any, rows: int, experts: int) -> tuple[Any, Any, Any]:
    """Tokens sorted by expert, each expert's padded to whole tiles; the expert of each tile; how many are padded."""
    flat = ids.flatten().long()
    counts = torch.bincount(flat, minlength=experts)
    tiles = (counts + rows - 1) // rows
    most = flat.numel() + experts * (rows - 1)
    sorted_ids = torch.full((most,), flat.numel(), dtype=torch.int32, device=ids.device)
    order = flat.argsort(stable=True)
    starts = (tiles.cumsum(0) - tiles) * rows
    inside = torch.arange(flat.numel(), device=ids.device) - (counts.cumsum(0) - counts)[flat[order]]
    sorted_ids[starts[flat[order]] + inside] = order.to(torch.int32)
    owners = torch.zeros(math.ceil(most / rows), dtype=torch.int32, device=ids.device)
    listed = torch.repeat_interleave(torch.arange(experts, device=ids.device), tiles).to(torch.int32)
    owners[: listed.numel()] = listed
    return sorted_ids, owners, (tiles.sum() * rows).to(torch.int32).reshape(1)


def _kind(dtype: str | None) -> Any:
    return {"fp8_w8a8": FP8, "int8_w8a8": torch.int8}.get(dtype or "", torch.bfloat16)


def _random(size: tuple[int, int], dtype: str | None, source: Any) -> Any:
    values = torch.randn(size, generator=source, device="cuda")
    if dtype == "int8_w8a8":
        return (values * 40).round().clamp(-127, 127).to(torch.int8)
    return values.to(_kind(dtype))


def _weight_scale(shape: dict[str, Any], rows: int, columns: int) -> Any:
    if shape["dtype"] is None:
        return None
    count = shape["E"]
    size: tuple[int, ...] = (count,)
    if shape["block"]:
        size = (count, math.ceil(rows / shape["block"][0]), math.ceil(columns / shape["block"][1]))
    elif shape["per_channel"] or shape["dtype"] == "int8_w8a8":
        size = (count, rows, 1)
    return torch.rand(size, device="cuda") * 0.02 + 0.01


def _token_scale(shape: dict[str, Any], tokens: Any) -> Any:
    if shape["dtype"] is None:
        return None
    size: tuple[int, ...] = (1,)
    if shape["block"]:
        size = (tokens.shape[0], math.ceil(tokens.shape[1] / shape["block"][1]))
    elif shape["per_channel"] or shape["dtype"] == "int8_w8a8":
        size = (tokens.shape[0], 1)
    return torch.rand(size, device="cuda") + 0.5
