"""SmolLM2-135M as vLLM reads a model, from the GGUF file of a wheel: python safetensors_model.py GGUF FOLDER.

It has 9 heads, which two machines cannot share. A fourth group of three heads, all zeros, makes them 12 and changes no
answer.
"""

import sys
from pathlib import Path

import torch
from torch.nn.functional import pad
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig, LlamaConfig, LlamaForCausalLM

source, folder = Path(sys.argv[1]), Path(sys.argv[2])
read = AutoModelForCausalLM.from_pretrained(
    source.parent, gguf_file=source.name, dtype=torch.float32, quantization_config=GgufConfig(dequantize=True)
)
old = read.config.to_dict()
groups, width = old["num_key_value_heads"], old["head_dim"]
share = old["num_attention_heads"] // groups
for name in ("quantization_config", "_name_or_path"):
    old.pop(name, None)
heads = {"num_attention_heads": share * (groups + 1), "num_key_value_heads": groups + 1}
weights = read.state_dict()
for name, weight in weights.items():
    if name.endswith(("k_proj.weight", "v_proj.weight")):
        weights[name] = pad(weight, (0, 0, 0, width))
    elif name.endswith("q_proj.weight"):
        weights[name] = pad(weight, (0, 0, 0, share * width))
    elif name.endswith("o_proj.weight"):
        weights[name] = pad(weight, (0, share * width))
model = LlamaForCausalLM(LlamaConfig(**{**old, **heads}))
model.load_state_dict(weights)
words = torch.arange(9, 41)[None]
with torch.no_grad():
    torch.testing.assert_close(model.eval()(words).logits, read.eval()(words).logits, atol=1e-3, rtol=1e-3)
model.to(torch.bfloat16).save_pretrained(folder)
AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name).save_pretrained(folder)
