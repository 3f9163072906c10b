"""The rule about SGLang's default tiles for FP8 experts: by the model's sizes, else by its name. Pure.

``get_default_config`` of 0.5.4 to 0.5.13 takes 128 x 256 x 128 in four stages for FP8 without blocks, as soon as a step
has more tokens than experts: 147,456 bytes. FP8 in blocks of 128 has tiles of 49,152 bytes.
"""

import re
from collections.abc import Iterator
from typing import Final

from gb10.errors import UsageError
from gb10.models.lint.conditions import Found
from gb10.models.lint.served import Served
from gb10.models.memory.known_models import known_model
from gb10.models.memory.model import Model
from gb10.models.memory.shapes.decoder import model_tensors
from gb10.models.memory.weights.weight import weight_of

TRITON: Final = ("", "auto", "triton")
"""Values of --moe-runner-backend with which Triton serves FP8 experts on 12.x."""
FP8_ASKED: Final = ("fp8", "w8a8_fp8", "modelopt_fp8")
FP8_NAME: Final = re.compile(r"(?<![a-z0-9])fp8(?![a-z0-9])", re.IGNORECASE)
EXPERTS_NAME: Final = re.compile(
    r"\ba\d+(\.\d+)?b\b|\d+x\d+b|moe|mixtral|maverick|scout|glm-?(4\.[5-9]|5)|deepseek-?(v[2-9]|r\d|coder-v2)|minimax"
    r"|kimi|qwen3-next|qwen3-coder|step-?3|mimo-v2|nemotron-3|longcat|ernie-4|hunyuan|grok|jamba|gpt-oss|dots",
    re.IGNORECASE,
)
"""Names of models with experts, where no config is known."""
IN_BLOCKS: Final = ("Qwen/", "deepseek-ai/", "MiniMaxAI/", "moonshotai/", "XiaomiMiMo/", "stepfun-ai/")
"""Whose FP8 files have a scale for each block of 128 x 128."""
TILES_FOLDER: Final = "SGLANG_MOE_CONFIG_DIR"
TILES_MOD: Final = re.compile(r"moe[\w-]*(config|tile|tun)", re.IGNORECASE)
"""Names of mods that bring tuned files of experts, as ``moe-configs``."""
UNSURE: Final = "; it is taken by its name: recipe lint --weights PATH reads its config.json"


def fp8_experts(case: Served) -> Iterator[Found]:
    """Experts in FP8 without blocks, served by Triton's default tiles; a warning where only the name says so."""
    runner = case.options.get("--moe-runner-backend", ("",))[-1]
    if runner.lower() not in TRITON or _brings_tiles(case):
        return
    name = case.recipe.model or ""
    model, asked = case.sizes or known_model(name), case.options.get("--quantization", ("",))[-1].lower()
    known = _of_sizes(model, asked=asked in FP8_ASKED) if model is not None else None
    line = case.line_of("--moe-runner-backend") if "--moe-runner-backend" in case.options else case.recipe.line("model")
    if known:
        yield Found(line=line, value=name)
    elif known is None and _of_name(name, asked=asked in FP8_ASKED):
        yield Found(line=line, value=name, name=UNSURE, level="warning")


def _of_sizes(model: Model, *, asked: bool) -> bool | None:
    """Whether the experts are in FP8 without blocks; None where the sizes do not say. ``asked`` by --quantization."""
    if model.fields is None or model.scheme is None:
        return None
    if not model.fields.experts:
        return False
    try:
        tensors = model_tensors(model.fields.config, model.name)
    except UsageError:
        return None
    expert = next((one for one in tensors if one.linear and weight_of(one.name, 0, 1 << 16).part == "experts"), None)
    found = model.scheme.format_of(expert) if expert is not None else None
    if found is None:
        return asked
    return found.name.startswith("fp8") and not found.block


def _brings_tiles(case: Served) -> bool:
    """Whether a mod or a folder of its own brings tuned files, in place of the default."""
    return TILES_FOLDER in case.recipe.env or any(TILES_MOD.search(str(name)) for name in case.recipe.mods)


def _of_name(name: str, *, asked: bool) -> bool:
    short = name.rpartition("/")[2]
    return EXPERTS_NAME.search(short) is not None and (
        asked or (FP8_NAME.search(short) is not None and not name.startswith(IN_BLOCKS))
    )
