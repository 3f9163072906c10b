"""Launches an engine's own fused MoE kernel through its own launch code, and compares results with FP32."""

import inspect
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch  # type: ignore[import-not-found]

from gb10.image.moe.child.cut import Cut, Module
from gb10.image.moe.child.gpu_inputs import Batch, Weights, aligned
from gb10.image.moe.child.launching import GROUPED, LAUNCHES
from gb10.image.moe.child.stand_in import Silent, standard

TOLERANCE = 0.02
"""Largest error of a result in BF16, relative to the largest result."""
SAMPLES = 64


def launch_code(source: str, engine: str, shape: dict[str, Any]) -> Any:
    """The engine's launch function, cut out of its module; its kernel is compiled by the Triton that is installed."""
    import triton  # noqa: PLC0415
    import triton.language as tl  # noqa: PLC0415

    capability = torch.cuda.get_device_capability()
    hopper = capability[0] == 9

    def swaps(rows: int, columns: int) -> bool:
        return hopper and rows < 64 and columns >= 64

    known: dict[str, Any] = {
        "torch": torch,
        "triton": triton,
        "tl": tl,
        "logger": Silent(),
        "padding_size": 0,
        "enable_swap_ab": swaps,
        "should_enable_swap_ab": swaps,
        "resolve_moe_use_td": lambda *_: False,
        "warn_if_moe_use_td_ineffective": lambda *_, **__: None,
        "is_arch_support_pdl": lambda *_: capability[0] >= 9,
        "envs": SimpleNamespace(),
        "_is_cuda": True,
        **_quantized_already(),
    }
    module = Module(Path(source).read_text(encoding="utf-8"), source)
    function, kernel = LAUNCHES[engine, "moe", shape["dtype"] in GROUPED]

    def importing(origin: str, name: str) -> Any:
        return known[name] if name in known else standard(origin, name)

    space = Cut(module, (kernel,), known).run({"__name__": "kernel", **known}, importing)
    known[kernel] = space[kernel]
    return Cut(module, (function,), known).run({"__name__": "launch", **known}, importing)[function]


def _quantized_already() -> dict[str, Any]:
    """SGLang quantizes inside its launch code; here the tokens are, and only the kernel is timed."""

    def same(tokens: Any, scale: Any = None, *_: Any, **__: Any) -> tuple[Any, Any]:
        return tokens.values, tokens.scale

    names = ("scaled_fp8_quant", "sglang_per_token_group_quant_fp8", "per_token_group_quant_fp8")
    more = ("sglang_per_token_group_quant_int8", "per_token_group_quant_int8", "per_token_quant_int8")
    return dict.fromkeys((*names, *more), same)


class Gemms:
    """Both GEMMs of one batch with one row: ``run`` launches them for each drawn routing."""

    def __init__(self, engine: str, shape: dict[str, Any], topk: int, weights: Weights, batch: Batch) -> None:
        self.engine, self.shape, self.topk, self.weights, self.batch = engine, shape, topk, weights, batch
        hidden = weights.down.shape[1]
        size = batch.size
        self.out = {
            "up": torch.empty((size, topk, 2 * shape["N"]), dtype=torch.bfloat16, device="cuda"),
            "down": torch.empty((size, topk, hidden), dtype=torch.bfloat16, device="cuda"),
        }
        self.router = torch.ones((size, topk), device="cuda")

    def sorted(self, routing: str, rows: int, draws: int) -> list[tuple[Any, Any, Any]]:
        """The routings as a kernel reads them, for tiles of ``rows``."""
        return [aligned(ids, rows, self.shape["E"]) for ids in self.batch.ids[routing][:draws]]

    def run(self, launch: Any, row: dict[str, int], routing: str, orders: list[tuple[Any, Any, Any]]) -> None:
        """Launch both GEMMs for each routing."""
        for number, order in enumerate(orders):
            for gemm in ("up", "down"):
                launch(**self._arguments(launch, gemm, row, self.batch.ids[routing][number], order))

    def _arguments(
        self, launch: Any, gemm: str, row: dict[str, int], ids: Any, order: tuple[Any, Any, Any]
    ) -> dict[str, Any]:
        import triton.language as tl  # noqa: PLC0415

        up, shape = gemm == "up", self.shape
        left, scale = self.batch.left[gemm], self.batch.scales[gemm]
        if self.engine == "sglang" and scale is not None:
            left, scale = SimpleNamespace(values=left, scale=scale, dtype=torch.bfloat16), None
        made = {
            "A": left,
            "B": getattr(self.weights, gemm),
            "C": self.out[gemm],
            "bias": None,
            "A_scale": scale,
            "B_scale": getattr(self.weights, f"{gemm}_scale"),
            "B_zp": None,
            "topk_weights": self.router,
            "topk_ids": ids,
            "sorted_token_ids": order[0],
            "expert_ids": order[1],
            "num_tokens_post_padded": order[2],
            "mul_routed_weight": not up,
            "top_k": self.topk if up else 1,
            "config": dict(row),
            "compute_type": tl.bfloat16,
            **{f"use_{name}": shape["dtype"] == name for name in ("fp8_w8a8", "int8_w8a8")},
            "use_int8_w8a16": False,
            "use_int4_w4a16": False,
            "per_channel_quant": bool(shape["per_channel"] or shape["dtype"] == "int8_w8a8"),
            "block_shape": shape["block"],
        }
        return {name: made[name] for name in inspect.signature(launch).parameters if name in made}

    def error(self, routing: str) -> float:
        """The largest error of sampled results of the last routing launched, relative to the largest result."""
        return max(self._error(gemm, routing) for gemm in ("up", "down"))

    def _error(self, gemm: str, routing: str) -> float:
        ids = self.batch.ids[routing][0].flatten().long()
        picked = torch.linspace(0, ids.numel() - 1, min(SAMPLES, ids.numel()), device="cuda").long()
        tokens = picked // self.topk if gemm == "up" else picked
        left = _scaled(self.batch.left[gemm][tokens], _rows(self.batch.scales[gemm], tokens), self.shape["block"])
        worst, largest = 0.0, 1e-9
        found = self.out[gemm].flatten(0, 1)
        for number, place in enumerate(picked.tolist()):
            expert = int(ids[place])
            right = _weight(self.weights, gemm, expert, self.shape["block"])
            wanted = left[number] @ right.T
            worst = max(worst, float((found[place].float() - wanted).abs().max()))
            largest = max(largest, float(wanted.abs().max()))
        return worst / largest if math.isfinite(worst) else math.inf


def _rows(scale: Any, tokens: Any) -> Any:
    return scale if scale is None or scale.numel() == 1 else scale[tokens]


def _scaled(values: Any, scale: Any, block: list[int] | None) -> Any:
    wide = values.float()
    if scale is None:
        return wide
    if block and scale.ndim == 2:
        return wide * scale.repeat_interleave(block[1], 1)[:, : wide.shape[1]]
    return wide * scale


def _weight(weights: Weights, gemm: str, expert: int, block: list[int] | None) -> Any:
    values, scale = getattr(weights, gemm)[expert].float(), getattr(weights, f"{gemm}_scale")
    if scale is None:
        return values
    if block:
        whole = scale[expert].repeat_interleave(block[0], 0).repeat_interleave(block[1], 1)
        return values * whole[: values.shape[0], : values.shape[1]]
    return values * scale[expert]
