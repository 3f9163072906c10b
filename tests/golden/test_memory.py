"""What a model's config says of its memory: every tensor, the cache of a rank, and the budgets of some launches.

Sizes that were published or measured are held by tests/unit/models/test_memory*.py, within a few per cent; these files
show which line of code moves which byte.
"""

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from gb10.errors import UsageError
from gb10.models.memory.cache import Cache, cache_of, number_formats
from gb10.models.memory.engines.budget import Machine
from gb10.models.memory.engines.others import other_budget
from gb10.models.memory.engines.sglang import sglang_budget
from gb10.models.memory.engines.vllm import vllm_budget
from gb10.models.memory.estimating import container_memory, estimate, torch_bytes
from gb10.models.memory.figures import load_figures
from gb10.models.memory.launch import Drafts, Launch
from gb10.models.memory.model import FOLDER, read_known
from gb10.models.memory.shapes.config_fields import Fields, layer_plan
from gb10.models.memory.shapes.decoder import model_tensors
from gb10.models.memory.shapes.layers import Tensor, linear, plain
from gb10.models.memory.weights.scheme import read_scheme
from gb10.models.memory.weights.weight import Ranks, stage_of, weight_of
from tests.golden.conftest import Golden, section

CONFIGS: Final = Path(__file__).parents[1] / "unit/data/memory/configs"
MODELS: Final = [
    "Qwen--Qwen2.5-1.5B-Instruct",
    "Qwen--Qwen3-235B-A22B-GPTQ-Int4",
    "QuantTrio--Qwen3-VL-235B-A22B-Instruct-AWQ",
    "nvidia--Qwen3-Next-80B-A3B-Instruct-NVFP4",
    "Qwen--Qwen3.8-27B-FP8",
    "nvidia--Qwen3.5-397B-A17B-NVFP4",
    "RadixArk--Qwen3.8-Flash-Next-NVFP4",
    "google--gemma-4-12B-it",
    "RedHatAI--gemma-4-26B-A4B-it-FP8-dynamic",
    "openai--gpt-oss-120b",
    "nvidia--GLM-4.7-NVFP4",
    "nvidia--GLM-5-NVFP4",
    "RedHatAI--GLM-5.3-Flash-NVFP4",
    "moonshotai--Kimi-K2-Instruct",
    "moonshotai--Kimi-K3",
    "inclusionAI--Ling-3.0-tiny",
    "meta-llama--Llama-4-Maverick-17B-128E-Instruct",
    "XiaomiMiMo--MiMo-V2-Flash",
    "cyankiwi--MiniMax-M2.7-AWQ-4bit",
    "nvidia--MiniMax-M3-NVFP4",
    "mistralai--Devstral-Small-2507",
    "nm-testing--Mixtral-8x7B-Instruct-v0.1-FP8-Dynamic",
    "nvidia--NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4",
    "deepseek-ai--DeepSeek-V4-Flash-0731",
    "nvidia--DeepSeek-V4-Pro-NVFP4",
    "stepfun-ai--Step-3.7-Flash",
]
"""One of each family of decoders and of each way to quantize."""
LAUNCHED: Final = [
    "Qwen--Qwen2.5-1.5B-Instruct",
    "nvidia--Qwen3.5-397B-A17B-NVFP4",
    "RadixArk--Qwen3.8-Flash-Next-NVFP4",
    "google--gemma-4-12B-it",
    "openai--gpt-oss-120b",
    "nvidia--GLM-5-NVFP4",
    "nvidia--NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4",
    "deepseek-ai--DeepSeek-V4-Flash-0731",
    "RedHatAI--GLM-5.3-Flash-NVFP4",
]
"""Those with each kind of cache, and two whose sizes are published."""
BUDGETS: Final = {"vllm": vllm_budget, "sglang": sglang_budget}
OWN: Final = Drafts(tokens=3, own=True)
LAUNCHES: Final = {
    "vllm on 1": Launch(engine="vllm", release="0.33.0", fraction=0.8, length=131072, requests=16, cache_type="fp8"),
    "vllm on 2, drafts": Launch(
        engine="vllm", release="0.33.0", ranks=Ranks(tensor=2), fraction=0.85, length=32768, requests=8, drafts=OWN
    ),
    "vllm on 2 stages": Launch(
        engine="vllm", release="0.19.1", ranks=Ranks(stages=2), length=8192, batched=2048, graphs=False, text_only=True
    ),
    "sglang on 2": Launch(engine="sglang", release="0.5.23", ranks=Ranks(tensor=2), fraction=0.8, length=32768),
    "sglang on 4, drafts": Launch(
        engine="sglang",
        release="0.5.23",
        ranks=Ranks(tensor=4),
        requests=32,
        batched=4096,
        drafts=OWN,
        cache_type="fp8",
    ),
    "llama.cpp": Launch(engine="llama-cpp", length=16384, requests=2),
    "trtllm": Launch(engine="trtllm", fraction=0.7, length=16384, requests=4),
}


def file_of(name: str) -> Path:
    return path if (path := FOLDER / f"{name}.json").is_file() else CONFIGS / f"{name}.json"


def sizes_of(cache: Cache) -> str:
    each = Counter((one.kind, one.size, one.window, one.step, one.latent, one.checkpoint) for one in cache.layers)
    layers = "".join(f"\n    {count} of {', '.join(map(str, one))}" for one, count in each.items())
    return f"token {cache.token}, state {cache.state}, windows {cache.windows}{layers}"


def shapes_of(name: str) -> str:
    config = json.loads(file_of(name).read_text(encoding="utf-8")).get("config")
    if config is None:
        return section(name, "published sizes")
    fields, scheme = Fields(config), read_scheme(config)
    layers = layer_plan(fields)
    count, numbers = Counter[tuple[Tensor, int, str]](), dict[tuple[Tensor, int, str], str]()
    for tensor in model_tensors(config, name):
        at = re.search(r"\d+", tensor.name)
        part = weight_of(tensor.name, 0, fields.layers).part
        alike = replace(tensor, name=re.sub(r"\b\d+\b", "N", tensor.name)), scheme.size(tensor), part
        count[alike] += 1
        numbers.setdefault(alike, at[0] if at else "")
    lines = [
        f"{number}x {one.name} {one.rows} x {one.columns} x {one.copies}: {size} bytes, {part}"
        for ((one, size, part), number) in count.items()
    ]
    plan = Counter(f"{layer.mixer} {layer.feed}" for layer in layers)
    caches = [
        f"cache of 1 in {tensor}, {word}: {sizes_of(cache_of(fields, layers, tensor, number_formats(word, 2, None)))}"
        for tensor, word in ((1, "auto"), (2, "fp8"), (16, "nvfp4"))
    ]
    stages = [[stage_of(layer.number, len(layers), ways) for layer in layers].count(ways - 1) for ways in (2, 3, 8)]
    told = f"{dict(plan)}; width {scheme.width}, cache {scheme.cache}; layers of the last of 2, 3, 8 stages {stages}"
    return section(name, "\n".join((told, *lines, *caches)))


def budgets_of(name: str) -> str:
    model, machine, lines = read_known(file_of(name)), Machine(figures=load_figures()), []
    for title, launch in LAUNCHES.items():
        try:
            found = estimate(model, launch, machine)
        except UsageError as error:
            lines.append(section(title, f"{error.message}"))
            continue
        said = []
        for budget in found.budgets:
            by_engine = BUDGETS.get(launch.engine, other_budget)(model, launch, machine, budget.stage)
            assert by_engine == budget
            limits = container_memory(budget, launch, machine)
            said += [
                f"stage {budget.stage}: " + ", ".join(f"{item.name} {item.size}" for item in budget.items),
                f"pool {budget.pool}, tokens {budget.tokens}, requests {budget.requests}, load {budget.load}, "
                f"start {budget.start}, limit {limits.limit}, headroom {limits.headroom}, counted {limits.counted}, "
                f"torch {torch_bytes(budget, machine)}",
                *(f"{one.code}{' (warning)' * one.warning}: {one.text}" for one in budget.problems),
            ]
        lines.append(section(title, "\n".join((*said, *found.remedies, *found.notes))))
    return section(name, "\n".join(lines))


def test_tensors_of_each_family(golden: Golden) -> None:
    golden("memory/tensors.txt", "\n\n".join(map(shapes_of, MODELS)) + "\n")


def test_budgets_of_each_kind_of_cache(golden: Golden) -> None:
    golden("memory/budgets.txt", "\n\n".join(map(budgets_of, LAUNCHED)) + "\n")


SCHEMES: Final[dict[str, dict[str, Any]]] = {
    "none": {},
    "float32": {"dtype": "float32"},
    "torch.float16": {"torch_dtype": "torch.float16"},
    "an odd type": {"dtype": "int3"},
    "GPTQ": {"quant": {"quant_method": "gptq", "bits": 4, "group_size": 128}},
    "GPTQ by row": {"quant": {"quant_method": "gptq", "bits": 8, "group_size": -1}},
    "AWQ": {"quant": {"quant_method": "awq", "w_bit": 4, "modules_to_not_convert": ["q_proj"]}},
    "AutoRound": {"quant": {"quant_method": "auto-round", "bits": 2, "group_size": 32}},
    "FP8": {"quant": {"quant_method": "fp8"}},
    "FP8 in blocks": {"quant": {"quant_method": "fp8", "weight_block_size": [96, 96], "ignored_layers": ["lm_head"]}},
    "FP8 in blocks of ue8m0": {"quant": {"quant_method": "fp8", "weight_block_size": [128, 128], "scale_fmt": "ue8m0"}},
    "MXFP4 experts": {"quant": {"quant_method": "mxfp4"}},
    "odd": {"quant": {"quant_method": "q" * 90}},
    "NVFP4": {"quant": {"quant_algo": "nvfp4", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}},
    "W4A16_NVFP4, inner": {"quant": {"quantization": {"quant_algo": "W4A16_NVFP4", "kv_cache_quant_algo": "NVFP4"}}},
    "MXFP8": {"quant": {"quant_algo": "MXFP8", "kv_cache_scheme": {"num_bits": 8}}},
    "FP8_PB_WO": {"quant": {"quant_algo": "FP8_PB_WO", "kv_cache_scheme": {"num_bits": 4}}},
    "FP8 by channel": {"quant": {"quant_algo": "FP8_PER_CHANNEL_PER_TOKEN", "kv_cache_scheme": "FP8"}},
    "layers of their own": {
        "quant": {
            "quant_algo": "MIXED_PRECISION",
            "quantized_layers": {
                "model.layers.0.self_attn.q_proj": {"quant_algo": "FP8"},
                "model.layers.0.mlp.experts": {"quant_algo": "nvfp4"},
            },
        }
    },
    "layers of an odd kind": {"quant": {"quant_algo": "MIXED", "quantized_layers": {"a": {"quant_algo": "X"}, "b": 3}}},
}
WEIGHTS: Final[dict[str, dict[str, Any]]] = {
    "nvfp4": {"num_bits": 4, "type": "float", "group_size": 16},
    "mxfp4": {"num_bits": 4, "type": "float", "group_size": 32},
    "nvfp4, but mxfp4 by its format": {"num_bits": 4, "type": "float", "group_size": 16, "format": "mxfp4-pack"},
    "fp8": {"num_bits": 8, "type": "float", "strategy": "tensor"},
    "fp8 by channel": {"num_bits": 8, "type": "float", "strategy": "channel"},
    "fp8 in blocks": {"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [64, 64]},
    "fp8 in the largest blocks": {"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [1024, 1]},
    "fp8 in blocks that are too large": {
        "num_bits": 8,
        "type": "float",
        "strategy": "block",
        "block_structure": [1025, 1],
    },
    "fp8 in blocks of nothing": {"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [0, 0]},
    "int4": {"num_bits": 4, "type": "int", "group_size": 64, "symmetric": True},
    "int4 with zero points": {"num_bits": 4, "type": "int", "group_size": 64, "symmetric": False},
    "int8 by row": {"num_bits": 8, "type": "int", "symmetric": True},
    "none": {},
}
TENSORS: Final = (
    linear("layers.0.self_attn.q_proj", 1000, 520),
    linear("layers.0.mlp.experts.*.down_proj", 300, 1000, copies=8),
    linear("lm_head", 1000, 3000),
    plain("layers.0.mlp.gate", 8, 1000),
    plain("layers.0.hc", 8, 100, width=4),
)


def test_bytes_of_every_quantization(golden: Golden) -> None:
    lines = []
    cases: dict[str, tuple[dict[str, Any], Any]] = {
        name: (dict(keys), keys.get("quant")) for name, keys in SCHEMES.items()
    }
    for name, weights in WEIGHTS.items():
        groups: dict[str, Any] = {
            "a": {"targets": ["Linear"], "weights": weights, "format": weights.get("format", "x")}
        }
        groups["b"] = {"targets": ["re:.*q_proj"], "weights": WEIGHTS["int8 by row"]}
        quant = {"quant_method": "compressed-tensors", "config_groups": groups, "ignore": ["lm_head"]}
        cases[f"compressed: {name}"] = ({}, quant)
    for name, (keys, quant) in cases.items():
        config = {"model_type": "qwen3_moe", **{key: one for key, one in keys.items() if key != "quant"}}
        config |= {"quantization_config": quant} if quant else {}
        try:
            scheme = read_scheme(config)
            formats = [(found.name if (found := scheme.format_of(one)) else "-", scheme.size(one)) for one in TENSORS]
            lines.append(f"{name}: {', '.join(f'{kind} {size}' for kind, size in formats)}; cache {scheme.cache}")
        except UsageError as error:
            lines.append(f"{name}: {error.message}")
    golden("memory/quantizations.txt", "\n".join(lines) + "\n")
