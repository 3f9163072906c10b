"""A model that says one text, word by word: real weights of a real architecture, in 1 MB, and nothing to download.

Each word stands once in the text, and the output layer leads from a word to the next one. So an answer is right only
if every rank of a tensor-parallel server adds its part of the embedding and of the output layer.
"""

import json
import struct
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path

TEXT = (
    "Granite forms deep under old mountains where molten rock cools so slowly that its crystals grow large enough to "
    "see. Quartz, feldspar and mica give it colour. Later, rain, wind plus frost wear away everything above, until "
    "bare domes stand in daylight again. People quarry these blocks for bridges, kerbs, worktops or statues because "
    "few other stones resist weather, salt, acid, heat, scratches and-or heavy use equally well over many centuries."
)
WORDS = ("<unk>", "<end>", "<answer>", *TEXT.split())
SIZE = 128
LAYERS, HEADS, SHARED, WIDTH = 2, 4, 2, 32
"""Layers; heads of queries, of keys and values, and their width."""
ROPE = 10000.0
TEMPLATE = (
    "{% for message in messages %}{{ message['content'] }} {% endfor %}<answer>"
    "{% if enable_thinking is defined and not enable_thinking %} Granite{% endif %}"
)
"""Without its thoughts the model begins with the second word: the first one stands in the prompt."""
CONFIG = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "vocab_size": SIZE,
    "hidden_size": SIZE,
    "intermediate_size": SIZE,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": SHARED,
    "head_dim": WIDTH,
    "hidden_act": "silu",
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-6,
    "rope_theta": ROPE,
    "tie_word_embeddings": False,
    "attention_bias": False,
    "bos_token_id": None,
    "eos_token_id": 1,
    "torch_dtype": "float32",
}
SURE = 8.0
"""How much the right next word stands out."""


Tensor = tuple[tuple[int, ...], bytes]
"""Shape and content."""


def write_word_model(folder: Path) -> Path:
    """The folder with the model in it."""
    assert len(set(WORDS)) == len(WORDS) <= SIZE
    return write_model(folder, CONFIG, WORDS, TEMPLATE, _weights())


def write_model(
    folder: Path, config: Mapping[str, object], words: Sequence[str], template: str, weights: Mapping[str, Tensor]
) -> Path:
    """A folder as transformers reads one. Each word is a token; the first three are "unknown", the end and a mark."""
    folder.mkdir(parents=True, exist_ok=True)
    added = [_special(number, words[number]) for number in range(3)]
    tokenizer = {
        "version": "1.0",
        "added_tokens": added,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "model": {"type": "WordLevel", "vocab": {word: at for at, word in enumerate(words)}, "unk_token": words[0]},
    }
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": words[0],
        "eos_token": words[1],
        "clean_up_tokenization_spaces": False,
        "chat_template": template,
    }
    for name, content in (("config", config), ("tokenizer", tokenizer), ("tokenizer_config", settings)):
        (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    (folder / "model.safetensors").write_bytes(_safetensors(weights))
    return folder


def _special(number: int, word: str) -> dict[str, object]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": number, "content": word, "special": True, **flags}


def _weights() -> dict[str, Tensor]:
    found: dict[str, Tensor] = {
        "model.embed_tokens.weight": matrix(SIZE, SIZE, {at: at for at in range(SIZE)}),
        "model.norm.weight": ones(SIZE),
        "lm_head.weight": matrix(SIZE, SIZE, _next(), SURE),
    }
    for layer in range(LAYERS):
        found |= {f"model.layers.{layer}.{name}": tensor for name, tensor in _layer().items()}
    return found


def _next() -> dict[int, int]:
    """The column with the present word, by the row of the next one."""
    words = range(3, len(WORDS))
    return {3: 2, **{at: at - 1 for at in words[1:]}, 1: len(WORDS) - 1}


def _layer() -> dict[str, Tensor]:
    """A layer that adds nothing: its last matrices are zero."""
    queries, keys = HEADS * WIDTH, SHARED * WIDTH
    spread = {at: at % SIZE for at in range(SIZE)}
    names = ("input_layernorm", "post_attention_layernorm")
    return {
        **{f"{name}.weight": ones(SIZE) for name in names},
        **{f"self_attn.{name}_norm.weight": ones(WIDTH) for name in "qk"},
        "self_attn.q_proj.weight": matrix(queries, SIZE, spread),
        "self_attn.k_proj.weight": matrix(keys, SIZE, {at: at for at in range(keys)}),
        "self_attn.v_proj.weight": matrix(keys, SIZE, {at: at for at in range(keys)}),
        "self_attn.o_proj.weight": matrix(SIZE, queries, {}),
        "mlp.gate_proj.weight": matrix(SIZE, SIZE, spread),
        "mlp.up_proj.weight": matrix(SIZE, SIZE, spread),
        "mlp.down_proj.weight": matrix(SIZE, SIZE, {}),
    }


def ones(count: int, value: float = 1.0) -> Tensor:
    """A vector of one value."""
    return (count,), (array("f", [value]) * count).tobytes()


def matrix(rows: int, columns: int, ones: Mapping[int, int], value: float = 1.0) -> Tensor:
    """Zeros but for one column in each row that is named."""
    return filled(rows, columns, dict.fromkeys(ones.items(), value))


def filled(rows: int, columns: int, values: Mapping[tuple[int, int], float]) -> Tensor:
    """Zeros but for these places."""
    found = array("f", [0.0]) * (rows * columns)
    for (row, column), value in values.items():
        found[row * columns + column] = value
    return (rows, columns), found.tobytes()


def _safetensors(tensors: Mapping[str, Tensor]) -> bytes:
    header, at = dict[str, object](), 0
    for name, (shape, content) in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [at, at + len(content)]}
        at += len(content)
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    return struct.pack("<Q", len(head)) + head + b"".join(content for _, content in tensors.values())
