"""The computed rules about SGLang on GB10: NVFP4 weights, CUDA graphs, the state of recurrent layers.

What holds for which release was read in SGLang 0.5.10 to 0.5.23; what fails on a GB10 is from the matrices of
vroomfondel/dgxarley (four Sparks, SGLang 0.5.10), whose rows the recipes keep.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from gb10.errors import UsageError
from gb10.models.lint.rule import Finding
from gb10.models.lint.served import LintCase
from gb10.models.memory.model import Model, known_config, known_model
from gb10.models.memory.shapes.decoder import model_tensors
from gb10.models.memory.weights.weight import weight_of

NVFP4: Final = re.compile(r"(?<![a-z])(?:nv)?fp4(?![a-z0-9])", re.IGNORECASE)
"""``NVFP4`` or ``FP4`` as a word of a model's name; ``MXFP4`` is another format."""
LEFT_TO_THE_FILES: Final = ("", "auto", "modelopt", "modelopt_mixed", "compressed-tensors", "compressed_tensors")
"""Values of ``--quantization`` with which the model's files say the format."""
RECURRENT: Final = re.compile(r"qwen-?3[._-]?next|qwen-?3[._]?[5-9](?![0-9b])", re.IGNORECASE)
"""Models of Gated DeltaNet layers, by name: their state is what SGLang calls the Mamba cache."""
RECURRENT_TYPES: Final = ("qwen3_next", "qwen3_5", "qwen3_5_moe")
SPEC_V2: Final = "SGLANG_ENABLE_SPEC_V2"
LARGEST_GRAPH: Final = (256, 512)
"""``cuda_graph_max_bs`` of 0.5.10 to 0.5.13 on a GPU of 90 to 160 GiB: below a tensor parallelism of four, else."""
LEAST_REQUESTS: Final = 2048
"""``max_running_requests`` where no option bounds it: 2,048 to 4,096 by the size of the cache, less if it is small."""
NO_PIECEWISE: Final = (
    *("--disable-piecewise-cuda-graph", "--enable-dp-attention", "--enable-torch-compile", "--enable-lora"),
    *("--lora-paths", "--moe-a2a-backend", "--enable-hierarchical-cache", "--enable-deterministic-inference"),
    *("--enable-symm-mem", "--enable-eplb", "--disaggregation-mode", "--cpu-offload-gb"),
)
"""Options with which SGLang 0.5.10 and 0.5.11 make no piecewise graphs (``_handle_piecewise_cuda_graph``)."""


def is_nvfp4(case: LintCase) -> bool:
    """Whether the weights are NVFP4: by ``--quantization``, else by the model's known config, else by its name."""
    asked = (case.options.get("--quantization") or ("",))[-1].lower()
    if asked not in LEFT_TO_THE_FILES:
        return asked in ("modelopt_fp4", "nvfp4", "petit_nvfp4")
    name = case.recipe.model or ""
    config = known_config(name)
    found = config.get("quantization_config") or config.get("quantization")
    algorithm = str(found.get("quant_algo", "")).upper() if isinstance(found, Mapping) else ""
    return algorithm == "NVFP4" or NVFP4.search(name.rpartition("/")[2]) is not None


def eager_experts(case: LintCase) -> Iterator[Finding]:
    """NVFP4 experts that run in parallel, without any CUDA graph."""
    if "--disable-cuda-graph" in case.options and is_nvfp4(case) and _parallel_experts(case):
        yield Finding(line=case.line_of("--disable-cuda-graph"), value="")


def graphs_below_requests(case: LintCase) -> Iterator[Finding]:
    """Batches above the largest graph, given or by default: eager ones. Wrong text where experts run in parallel."""
    if "--disable-cuda-graph" in case.options or not is_nvfp4(case):
        return
    tensor = case.number("--tensor-parallel-size") or 1
    graph = case.number("--cuda-graph-max-bs") or LARGEST_GRAPH[tensor >= 4]
    if sizes := case.options.get("--cuda-graph-bs"):  # then its largest is the bound
        if not all(size.isdecimal() for size in sizes):
            return
        graph = max(map(int, sizes))
    asked = case.number("--max-running-requests")
    requests = asked or LEAST_REQUESTS
    if graph >= requests:
        return
    given = next((one for one in ("--cuda-graph-bs", "--cuda-graph-max-bs") if one in case.options), None)
    name = "--max-running-requests" if asked or given is None else given
    bound = f"{requests:.0f}" if asked else f"{LEAST_REQUESTS} and more, by default,"
    yield Finding(
        line=case.line_of(name),
        value=f"{graph:.0f}",
        name=bound,
        level=None if _parallel_experts(case) else "note",
    )


def piecewise_by_default(case: LintCase) -> Iterator[Finding]:
    """Piecewise graphs of NVFP4 layers: on unless an option, drafts (in 0.5.10) or the model's kind take them away."""
    if "--enforce-piecewise-cuda-graph" in case.options or "--enable-piecewise-cuda-graph" in case.options:
        asked = next(one for one in case.options if one.endswith("-piecewise-cuda-graph"))
        if is_nvfp4(case):
            yield Finding(line=case.line_of(asked), value=asked)
        return
    drafts = "--speculative-algorithm" in case.options and case.release.startswith("0.5.10")
    spread = (case.number("--pipeline-parallel-size") or 1) > 1 or (case.number("--attn-cp-size") or 1) > 1
    if drafts or spread or not is_nvfp4(case) or any(one in case.options for one in NO_PIECEWISE):
        return
    config = known_config(case.recipe.model or "")
    if "vision_config" in config or RECURRENT.search(case.recipe.model or ""):
        return  # multimodal models have none in these releases
    yield Finding(
        line=case.recipe.line("command"), value="nothing switches them off", level=None if config else "warning"
    )


def mamba_settings(case: LintCase) -> Iterator[Finding]:
    """Drafts of a model with recurrent layers, without the scheduler that keeps their state beside the radix cache."""
    if not _recurrent_drafts(case) or "--disable-radix-cache" in case.options:
        return
    if "extra_buffer" not in case.options.get("--mamba-scheduler-strategy", ()):
        yield Finding(line=case.line_of("--speculative-algorithm"), value="")


def spec_v2(case: LintCase) -> Iterator[Finding]:
    """The same settings' variable, which 0.5.10 leaves off."""
    given = str(case.recipe.env.get(SPEC_V2, "")).lower()
    if _recurrent_drafts(case) and "--disable-radix-cache" not in case.options and given not in ("1", "true"):
        yield Finding(line=case.line_of("--speculative-algorithm"), value="")


def _recurrent_drafts(case: LintCase) -> bool:
    name = case.recipe.model or ""
    recurrent = known_config(name).get("model_type") in RECURRENT_TYPES or RECURRENT.search(name) is not None
    return recurrent and "--speculative-algorithm" in case.options


def _parallel_experts(case: LintCase) -> bool:
    return (case.number("--ep-size") or 1) > 1


SGLANG: Final[Mapping[str, Callable[[LintCase], Iterator[Finding]]]] = {
    "nvfp4-graphs-needed": eager_experts,
    "nvfp4-graph-batch": graphs_below_requests,
    "nvfp4-piecewise": piecewise_by_default,
    "qwen35-mamba-settings": mamba_settings,
    "qwen35-spec-v2": spec_v2,
}
"""By the code of the rule."""


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


def fp8_experts(case: LintCase) -> Iterator[Finding]:
    """Experts in FP8 without blocks, served by Triton's default tiles; a warning where only the name says so."""
    runner = case.options.get("--moe-runner-backend", ("",))[-1]
    # A mod or a folder of its own may bring tuned files, in place of the default.
    tuned = TILES_FOLDER in case.recipe.env or any(TILES_MOD.search(str(name)) for name in case.recipe.mods)
    if runner.lower() not in TRITON or tuned:
        return
    name = case.recipe.model or ""
    model, asked = case.sizes or known_model(name), case.options.get("--quantization", ("",))[-1].lower()
    known = _of_sizes(model, asked=asked in FP8_ASKED) if model is not None else None
    line = case.line_of("--moe-runner-backend") if "--moe-runner-backend" in case.options else case.recipe.line("model")
    if known:
        yield Finding(line=line, value=name)
    elif known is None and _of_name(name, asked=asked in FP8_ASKED):
        yield Finding(line=line, value=name, name=UNSURE, level="warning")


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


def _of_name(name: str, *, asked: bool) -> bool:
    short = name.rpartition("/")[2]
    return EXPERTS_NAME.search(short) is not None and (
        asked or (FP8_NAME.search(short) is not None and not name.startswith(IN_BLOCKS))
    )
