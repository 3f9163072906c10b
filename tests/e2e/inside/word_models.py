"""Small models of several architectures, as transformers saves them: python word_models.py WORDS OUT.

WORDS is the folder of the model of words. Each model that writes says its text: the layers are transformers' own, and
their last projections are zeros, so only the embedding and the output decide. Models that pool have random weights.
"""

import json
import shutil
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file
from transformers import (
    AutoModelForCausalLM,
    BertConfig,
    BertForSequenceClassification,
    BertModel,
    LlamaConfig,
    Qwen3MoeConfig,
    Qwen3NextConfig,
)

words, out = map(Path, sys.argv[1:])
given = json.loads((words / "config.json").read_text())
same = (
    *("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "head_dim"),
    *("num_key_value_heads", "max_position_embeddings", "rms_norm_eps", "tie_word_embeddings", "eos_token_id"),
)
shape = {name: given[name] for name in same}
experts = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 64, "decoder_sparse_step": 1}
states = {
    **{
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
    },
    **{"linear_conv_kernel_dim": 4, "layer_types": ["linear_attention", "full_attention"]},
    **{"shared_expert_intermediate_size": 64, "partial_rotary_factor": 0.5},
}
WRITING = {
    "llama": LlamaConfig(**shape),
    "moe": Qwen3MoeConfig(**shape, **experts),
    "hybrid": Qwen3NextConfig(**shape, **experts, **states),
}
LAST = ("o_proj.weight", "down_proj.weight", "down_proj", "out_proj.weight")
weights = load_file(words / "model.safetensors")
torch.manual_seed(5)

for name, config in WRITING.items():
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    with torch.no_grad():
        zeroed = [one.zero_() for part, one in model.named_parameters() if part.endswith(LAST)]
        model.get_input_embeddings().weight.copy_(weights["model.embed_tokens.weight"])
        model.get_output_embeddings().weight.copy_(weights["lm_head.weight"])
    assert len(zeroed) >= 2 * given["num_hidden_layers"], name
    model.save_pretrained(out / name)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(words / file, out / name)

bert = {
    "vocab_size": 300,
    "hidden_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
}
bert |= {"max_position_embeddings": 512, "initializer_range": 0.5, "pad_token_id": 0}
BertModel(BertConfig(**bert), add_pooling_layer=False).save_pretrained(out / "embedding")
BertForSequenceClassification(BertConfig(**bert, num_labels=1)).save_pretrained(out / "ranking")
for name in ("embedding", "ranking"):
    shutil.copy(out / "bytes.json", out / name / "tokenizer.json")
    about = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 500}
    (out / name / "tokenizer_config.json").write_text(json.dumps(about))
modules = [
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
]
(out / "embedding/modules.json").write_text(json.dumps(modules))
(out / "embedding/1_Pooling").mkdir()
pooling = {"word_embedding_dimension": 128, "pooling_mode_mean_tokens": True}
(out / "embedding/1_Pooling/config.json").write_text(json.dumps(pooling))
