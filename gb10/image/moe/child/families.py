"""One function per family of tuned files: it calls the engine's own look-up, and asks for the row of each size."""

import inspect
from collections.abc import Callable
from typing import Any

from gb10.image.moe.child.question import Answer, Question, error_line, spans
from gb10.image.moe.child.shape_only import Tensor

Space = dict[str, Any]
WANTED = {
    "moe": ("get_config_file_name", "get_moe_configs", "get_default_config", "try_get_optimal_moe_config"),
    "dense": ("get_w8a8_block_fp8_configs",),
    "mamba": ("get_ssm_config_file_name", "get_ssm_configs", "_try_get_optimal_ssm_config_cached"),
    "lora": ("get_lora_config_file_name", "get_lora_configs", "get_lora_shrink_config", "get_lora_expand_config"),
    "helion": ("ConfigManager",),
}
"""Functions that are cut out, by family."""
ALSO = {
    ("vllm", "moe"): ("should_moe_wna16_use_cuda", "get_moe_wna16_block_config"),
    ("vllm", "dense"): ("w8a8_triton_block_scaled_mm",),
    ("sglang", "dense"): ("w8a8_block_fp8_matmul_triton",),
}
PACKED = "int4_w4a16"
TRITON, CUDA, RAISES = "triton", "cuda", "raises"
"""Who takes a row, or that the engine stops there."""


def fused_moe(space: Space, question: Question, answer: Answer) -> None:
    """The experts of a mixture: one file for both GEMMs, in SGLang a second one for the second."""
    shape = question.shape
    block = shape["block"] or [0, 0]
    more = {} if question.engine == "vllm" else {"per_channel_quant": shape["per_channel"], "down_moe": shape["down"]}
    named = (shape["E"], shape["N"], shape["dtype"])
    answer.name = bind_known_arguments(space["get_config_file_name"], more)(*named, shape["block"])
    found = bind_known_arguments(space["get_moe_configs"], more)(*named, *block)
    answer.keys = None if found is None else list(found)
    answer.spans = spans(range(1, question.most + 1), _moe_row(space, question))


def bind_known_arguments(function: Callable[..., Any], named: dict[str, Any]) -> Callable[..., Any]:
    """The function with what it takes of these: older releases know fewer. Raises LookupError for one that decides."""
    takes = inspect.signature(function).parameters
    lost = [name for name, value in named.items() if name not in takes and value]
    if lost:
        raise LookupError(f"{function.__name__} of this release takes no {lost[0]}")
    given = {name: value for name, value in named.items() if name in takes}
    return lambda *values: function(*values, **given)


def _moe_row(space: Space, question: Question) -> Callable[[int], list[Any]]:
    shape = question.shape
    grouped = shape["dtype"] in (PACKED, "int8_w8a16")
    vllm, down = question.engine == "vllm", shape["down"]
    inner = shape["N"] // 2 if vllm and shape["dtype"] == PACKED else shape["N"]
    weights = ((shape["E"], 2 * shape["N"], question.hidden), (shape["E"], question.hidden, inner))
    block = [0, question.group] if grouped and vllm else shape["block"]
    named = {"block_shape": block}
    if not vllm:
        named |= {"per_channel_quant": shape["per_channel"], "return_down_config": down}

    optimal = bind_known_arguments(space["try_get_optimal_moe_config"], named)

    def row_at(size: int) -> list[Any]:
        try:
            row = optimal(*weights, question.topk, shape["dtype"], size)
            row = row[1][0] if down else row
            return _wna16(space, question, size, row) if grouped and vllm else [row, TRITON, row]
        except Exception as error:
            return [None, RAISES, error_line(error)]

    return row_at


def _wna16(space: Space, question: Question, size: int, row: Any) -> list[Any]:
    """vLLM's own test whether its CUDA kernel takes this size, and the row that its launch code completes."""
    tokens = size * question.topk
    bits = 4 if question.shape["dtype"] == PACKED else 8
    cuda = space["should_moe_wna16_use_cuda"](tokens, question.group, question.shape["E"], bits)
    whole = row.copy()
    whole.update(
        space["get_moe_wna16_block_config"](
            row,
            cuda,
            tokens,
            question.hidden,
            2 * question.shape["N"],
            question.shape["E"],
            question.group,
            question.topk,
            16,
        )
    )
    return [row, CUDA if cuda else TRITON, whole]


def dense_fp8(space: Space, question: Question, answer: Answer) -> None:
    """A linear layer in FP8 with block scales: the launch code runs, up to the kernel."""
    shape = question.shape
    rows, columns = shape["block"]
    found = space["get_w8a8_block_fp8_configs"](shape["N"], shape["K"], rows, columns)
    answer.keys = None if found is None else list(found)
    launched: list[Any] = []

    class Kernel:
        def __getitem__(self, grid: object) -> Callable[..., None]:
            return lambda *_, **options: launched.append(options)

    for name in ("_w8a8_triton_block_scaled_mm", "_w8a8_block_fp8_matmul"):
        space[name] = Kernel()
    launch = space[ALSO[question.engine, "dense"][0]]
    groups, blocks = -(-shape["K"] // columns), -(-shape["N"] // rows)

    def row_at(size: int) -> list[Any]:
        left, right = Tensor((size, shape["K"]), "float8_e4m3fn"), Tensor((shape["N"], shape["K"]), "float8_e4m3fn")
        scales = Tensor((size, groups), "float32"), Tensor((blocks, groups), "float32")
        try:
            launch(left, right, *scales, [rows, columns])
        except Exception as error:
            return [None, RAISES, error_line(error)]
        row = {name: value for name, value in launched.pop().items() if name != "needs_masking"}
        return [row, TRITON, row]

    answer.spans = spans(range(1, question.most + 1), row_at)


def mamba(space: Space, question: Question, answer: Answer) -> None:
    """Mamba's state update: its rows are chosen by batch x heads."""
    named = (question.shape["headdim"], question.shape["dstate"])
    state = question.shape["cache_dtype"]
    answer.name = space["get_ssm_config_file_name"](
        *named, space["_canonical_cache_dtype"](state), space["get_ssm_device_name"]()
    )
    found = space["get_ssm_configs"](*named, state)
    answer.keys = None if found is None else list(found)

    def row_at(size: int) -> list[Any]:
        try:
            rows, warps = space["_try_get_optimal_ssm_config_cached"](*named, size, 1, state, True)
        except Exception as error:
            return [None, RAISES, error_line(error)]
        row = {"BLOCK_SIZE_M": rows, "num_warps": warps}
        return [row, TRITON, row]

    answer.spans = spans(range(1, question.most + 1), row_at)


def lora(space: Space, question: Question, answer: Answer) -> None:
    """SGLang's LoRA kernels: rows by chunk size."""
    shape = question.shape
    named = (shape["K"], shape["R"], shape["S"])
    answer.name = space["get_lora_config_file_name"](shape["kernel"], *named)
    found = space["get_lora_configs"](shape["kernel"], *named)
    answer.keys = None if found is None else list(found)
    choose = space[f"get_lora_{shape['kernel']}_config"]

    def row_at(size: int) -> list[Any]:
        try:
            row = choose(*named, size)
        except Exception as error:
            return [None, RAISES, error_line(error)]
        return [row, TRITON, row]

    answer.spans = spans(range(1, question.most + 1), row_at)


def helion(space: Space, question: Question, answer: Answer) -> None:
    """vLLM's Helion kernels: a list of configurations for one GPU, by shapes that the kernel names itself."""
    platform = space["canonicalize_gpu_name"](question.shape["device"])
    answer.name = f"{question.shape['kernel']}/{platform}.json"
    found = space["ConfigManager"](None).get_platform_configs(question.shape["kernel"], platform)
    answer.keys = list(range(len(found))) if found else None


FAMILIES: dict[str, Callable[[Space, Question, Answer], None]] = {
    "moe": fused_moe,
    "dense": dense_fp8,
    "mamba": mamba,
    "lora": lora,
    "helion": helion,
}
