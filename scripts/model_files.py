"""Writes tiny model files by the real libraries, and keeps their headers: tests/unit/data/memory/files/NAME.json.

A proof of gb10/models/memory/weights: names, types and shapes are those that transformers, compressed-tensors and
NVIDIA's ModelOpt write. gb10's environment has none of them:

    python3.11 -m venv /tmp/files
    /tmp/files/bin/pip install torch==2.13.0 transformers==5.23.0 compressed-tensors==0.20.0 nvidia-modelopt==0.47.0 \\
        requests datasets accelerate peft
    /tmp/files/bin/python scripts/model_files.py tests/unit/data/memory/files
"""

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import modelopt.torch.quantization as modelopt
import torch  # type: ignore[import-not-found]
from compressed_tensors.compressors import ModelCompressor
from compressed_tensors.quantization import QuantizationConfig, apply_quantization_config, preset_name_to_scheme
from modelopt.torch.export import export_hf_checkpoint
from transformers import AutoConfig, AutoModelForCausalLM

BASE = {
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "vocab_size": 1024,
    "tie_word_embeddings": False,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
}
ROUTED = {"moe_intermediate_size": 256, "n_routed_experts": 8, "n_shared_experts": 1, "n_group": 1, "topk_group": 1}
DELTA = {
    **{"moe_intermediate_size": 256, "shared_expert_intermediate_size": 256, "num_experts": 8},
    **{"num_experts_per_tok": 2, "num_hidden_layers": 4, "linear_num_value_heads": 4, "linear_num_key_heads": 2},
    **{"linear_key_head_dim": 64, "linear_value_head_dim": 64, "linear_conv_kernel_dim": 4},
}
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {"num_hidden_layers": 2},
    "qwen3_moe": {"num_hidden_layers": 2, "moe_intermediate_size": 256, "num_experts": 8, "num_experts_per_tok": 2},
    "mixtral": {"num_hidden_layers": 2, "num_local_experts": 4},
    "glm4_moe": {"num_hidden_layers": 3, "first_k_dense_replace": 1, "attention_bias": True, **ROUTED},
    "minimax_m2": {"num_hidden_layers": 2, "intermediate_size": 256, "num_local_experts": 8},
    "gpt_oss": {"num_hidden_layers": 2, "intermediate_size": 256, "num_local_experts": 8},
    "deepseek_v3": {
        **{"num_hidden_layers": 3, "first_k_dense_replace": 1, "num_key_value_heads": 4, "kv_lora_rank": 64},
        **{"q_lora_rank": 128, "qk_rope_head_dim": 32, "qk_nope_head_dim": 64, "v_head_dim": 64, **ROUTED},
    },
    "qwen3_next": DELTA,
    "qwen3_5_moe_text": DELTA,
    "nemotron_h": {
        **{"num_hidden_layers": 4, "hybrid_override_pattern": "ME*E", "mamba_num_heads": 8, "mamba_head_dim": 64},
        **{"n_groups": 2, "ssm_state_size": 64, "conv_kernel": 4, "moe_shared_expert_intermediate_size": 512, **ROUTED},
    },
    "gemma4_text": {
        **{"num_hidden_layers": 3, "moe_intermediate_size": 128, "num_experts": 8, "top_k_experts": 2},
        **{"enable_moe_block": True, "global_head_dim": 128, "num_global_key_value_heads": 1, "sliding_window": 128},
        **{"attention_k_eq_v": True, "layer_types": ["sliding_attention", "sliding_attention", "full_attention"]},
        **{"hidden_size_per_layer_input": 0, "num_kv_shared_layers": 0, "tie_word_embeddings": True},
    },
    "deepseek_v4": {
        **{"num_hidden_layers": 4, "num_key_value_heads": 1, "head_dim": 128, "q_lora_rank": 128, "o_groups": 2},
        "intermediate_size": 256,  # another name of the experts' width
        **{"o_lora_rank": 64, "index_n_heads": 4, "index_head_dim": 64, "index_topk": 16, "hc_mult": 2},
        **{"compress_ratios": [0, 4, 128, 4], "num_hash_layers": 0, "qk_rope_head_dim": 32, **ROUTED},
        "num_nextn_predict_layers": 0,
    },
}
COMPRESSED = ("NVFP4", "NVFP4A16", "FP8_DYNAMIC", "FP8", "FP8_BLOCK", "W4A16", "W4A16_ASYM", "W8A16", "W8A8", "MXFP4")
MODELOPT = ("NVFP4_DEFAULT_CFG", "FP8_DEFAULT_CFG", "MXFP8_DEFAULT_CFG")
SCALES = ("weight_scale", "weight_global_scale", "input_global_scale", "input_scale")


def made(kind: str) -> tuple[Any, dict[str, Any]]:
    """A tiny model with random weights, and the fields of its config that gb10 may read."""
    fields = {**BASE, **FAMILIES[kind]}
    torch.manual_seed(0)
    config = AutoConfig.for_model(kind, **fields, architectures=None)
    return AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16), {"model_type": kind, **fields}


def compressed(scheme: str, folder: Path) -> dict[str, Any]:
    """A tiny Llama, compressed by compressed-tensors."""
    model, fields = made("llama")
    groups = {"group_0": preset_name_to_scheme(scheme, ["Linear"])}
    apply_quantization_config(model, QuantizationConfig(config_groups=groups, ignore=["lm_head"]))
    for module in model.modules():
        for name in SCALES:
            if hasattr(module, name):
                getattr(module, name).data.fill_(1.0)
    compressor = ModelCompressor.from_pretrained_model(model)
    compressor.compress_model(model)
    model.save_pretrained(folder)
    compressor.update_config(folder)
    told = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return {**fields, "quantization_config": told["quantization_config"]}


def optimized(scheme: str, folder: Path) -> dict[str, Any]:
    """A tiny Llama, quantized and exported by ModelOpt."""
    model, fields = made("llama")
    model.config.architectures = ["LlamaForCausalLM"]
    run: Callable[[Any], Any] = lambda one: one(torch.arange(16)[None])  # noqa: E731
    export_hf_checkpoint(modelopt.quantize(model, getattr(modelopt, scheme), forward_loop=run), export_dir=folder)
    told = json.loads((folder / "hf_quant_config.json").read_text(encoding="utf-8"))
    return {**fields, "quantization_config": told["quantization"]}


def plain(kind: str, folder: Path) -> dict[str, Any]:
    """A tiny model as transformers saves it."""
    model, fields = made(kind)
    model.save_pretrained(folder)
    return fields


def keep(out: Path, name: str, make: Callable[[str, Path], dict[str, Any]], what: str) -> None:
    """Make a model in a folder that goes, and keep its config and its header."""
    with tempfile.TemporaryDirectory() as folder:
        config = make(what, Path(folder))
        content = next(Path(folder).glob("*.safetensors")).read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    header.pop("__metadata__", None)
    lines = (json.dumps({"config": config}), json.dumps(header, separators=(",", ":")))
    (out / f"{name}.jsonl").write_text("\n".join([*lines, ""]), encoding="utf-8")


def main(out: Path) -> None:
    """All of them."""
    out.mkdir(parents=True, exist_ok=True)
    for kind in FAMILIES:
        keep(out, kind, plain, kind)
    for scheme in COMPRESSED:
        keep(out, f"compressed-{scheme.lower()}", compressed, scheme)
    for scheme in MODELOPT:
        keep(out, f"modelopt-{scheme.lower()}", optimized, scheme)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
