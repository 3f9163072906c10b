"""Arguments for the engines' launch code: tensors of the shapes that a row of a tuned file is for, without memory."""

import inspect
from collections.abc import Callable
from typing import Any

from gb10.image.moe.child.shape_only import Tensor

GROUPED = ("int8_w8a16", "int4_w4a16")
WORDS = {"fp8_w8a8": "float8_e4m3fn", "int8_w8a8": "int8", "int8_w8a16": "int8", "int4_w4a16": "uint8"}


LAUNCHES: dict[tuple[str, str, bool], tuple[str, str]] = {
    ("vllm", "moe", False): ("invoke_fused_moe_triton_kernel", "fused_moe_kernel"),
    ("vllm", "moe", True): ("invoke_fused_moe_wna16_triton_kernel", "fused_moe_kernel_gptq_awq"),
    ("sglang", "moe", False): ("invoke_fused_moe_kernel", "fused_moe_kernel"),
    ("sglang", "moe", True): ("invoke_fused_moe_kernel", "fused_moe_kernel_gptq_awq"),
    ("vllm", "dense", False): ("w8a8_triton_block_scaled_mm", "_w8a8_triton_block_scaled_mm"),
    ("sglang", "dense", False): ("w8a8_block_fp8_matmul_triton", "_w8a8_block_fp8_matmul"),
}
"""The launch function and its kernel, by engine, family, and whether a scale is for a group of weights."""


def launch_arguments(
    function: Callable[..., Any], engine: str, family: str, job: dict[str, Any], tl: Any
) -> dict[str, Any]:
    """A value for each parameter that has no default; raises LookupError for one that is not known."""
    made = dense(job) if family == "dense" else experts(engine, job, tl)
    parameters = inspect.signature(function).parameters
    absent = [name for name, one in parameters.items() if one.default is one.empty and name not in made]
    if absent:
        raise LookupError(f"the launch takes {', '.join(absent)}")
    return {name: made[name] for name in parameters if name in made}


def dense(job: dict[str, Any]) -> dict[str, Any]:
    """A linear layer; the launch looks its row up by itself, so the look-up is answered by the caller."""
    shape, size = job["shape"], job["size"]
    rows, columns = shape["block"]
    groups, blocks = -(-shape["K"] // columns), -(-shape["N"] // rows)
    return {
        "A": Tensor((size, shape["K"]), "float8_e4m3fn"),
        "B": Tensor((shape["N"], shape["K"]), "float8_e4m3fn"),
        "As": Tensor((size, groups), "float32"),
        "Bs": Tensor((blocks, groups), "float32"),
        "block_size": [rows, columns],
        "output_dtype": Tensor((1,), "bfloat16").dtype,
    }


def experts(engine: str, job: dict[str, Any], tl: Any) -> dict[str, Any]:
    """One of the two GEMMs: ``up`` is the first, whose rows are the tokens; ``down`` has one row for each choice."""
    shape, size, topk, config = job["shape"], job["size"], job["topk"], dict(job["config"])
    up, dtype, count = job["gemm"] == "up", job["shape"]["dtype"], job["shape"]["E"]
    wide, deep = (2 * shape["N"], job["hidden"]) if up else (job["hidden"], shape["N"])
    tokens = size if up else size * topk
    quantized_first = engine == "vllm" and dtype in ("fp8_w8a8", "int8_w8a8")
    padded = size * topk + count * (config["BLOCK_SIZE_M"] - 1)
    naive = engine == "vllm" and size * topk * 4 <= count and dtype not in GROUPED
    kind = {"float32": "float32"}.get(dtype, "bfloat16")
    packed = deep // 2 if dtype == "int4_w4a16" else deep
    left, right = _scales(job, tokens, wide, deep)
    ids = Tensor((size, topk), "int32")
    return {
        "A": Tensor((tokens, deep), WORDS[dtype] if quantized_first else kind),
        "B": Tensor((count, wide, packed), WORDS.get(dtype, kind)),
        "C": Tensor((size, topk, wide), kind),
        "bias": None,
        "B_bias": None,
        "A_scale": left if engine == "vllm" else None,
        "B_scale": right,
        "B_zp": None,
        "topk_weights": Tensor((size, topk), "float32"),
        "topk_ids": ids,
        "sorted_token_ids": None if naive else Tensor((padded,), "int32"),
        "expert_ids": Tensor((-(-padded // config["BLOCK_SIZE_M"]),), "int32"),
        "num_tokens_post_padded": Tensor((1,), "int32"),
        "mul_routed_weight": not up,
        "top_k": topk if up else 1,
        "config": config,
        "compute_type": tl.float32 if kind == "float32" else tl.bfloat16,
        **{f"use_{name}": dtype == name for name in ("fp8_w8a8", "int8_w8a8", "int8_w8a16", "int4_w4a16")},
        "per_channel_quant": shape["per_channel"],
        "block_shape": [0, job["group"]] if dtype in GROUPED else shape["block"],
    }


def _scales(job: dict[str, Any], tokens: int, wide: int, deep: int) -> tuple[Tensor | None, Tensor | None]:
    shape, dtype = job["shape"], job["shape"]["dtype"]
    if dtype in GROUPED:
        return None, Tensor((shape["E"], wide, deep // job["group"]), "bfloat16")
    if dtype not in WORDS:
        return None, None
    if shape["block"]:
        rows, columns = shape["block"]
        groups = -(-deep // columns)
        return Tensor((tokens, groups), "float32"), Tensor((shape["E"], -(-wide // rows), groups), "float32")
    if shape["per_channel"]:
        return Tensor((tokens, 1), "float32"), Tensor((shape["E"], wide, 1), "float32")
    return Tensor((1,), "float32"), Tensor((shape["E"],), "float32")


def quantized() -> dict[str, Callable[..., tuple[Tensor, Tensor]]]:
    """SGLang quantizes inside its launch code: the shapes and types that its functions return."""

    def tensorwise(a: Tensor, *_: object, use_per_token_if_dynamic: bool = False) -> tuple[Tensor, Tensor]:
        scale = (a.shape[0], 1) if use_per_token_if_dynamic else (1,)
        return Tensor(a.shape, "float8_e4m3fn"), Tensor(scale, "float32")

    def grouped(kind: str) -> Callable[..., tuple[Tensor, Tensor]]:
        return lambda a, size, *_, **__: (
            Tensor(a.shape, kind),
            Tensor((a.shape[0], -(-a.shape[1] // size)), "float32"),
        )

    return {
        "scaled_fp8_quant": tensorwise,
        "sglang_per_token_group_quant_fp8": grouped("float8_e4m3fn"),
        "per_token_group_quant_fp8": grouped("float8_e4m3fn"),
        "sglang_per_token_group_quant_int8": grouped("int8"),
        "per_token_group_quant_int8": grouped("int8"),
        "per_token_quant_int8": lambda a, *_, **__: (Tensor(a.shape, "int8"), Tensor((a.shape[0], 1), "float32")),
    }


def grouped(request: dict[str, Any], row: dict[str, int], size: int) -> dict[str, int] | None:
    """The row with groups of tiles, where an expert has several."""
    enough = size * request["topk"] / request["shape"]["E"] > row["BLOCK_SIZE_M"]
    return {**row, "GROUP_SIZE_M": 16} if enough else None
