"""A model whose canaries are right: it copies its prompt, by one layer of attention that looks seven tokens back.

Its chat template makes eight tokens of a canary: the code, the answer to the question, and a mark, which leads to the
end. So an answer is right only if attention, its cache and the sampler of a server are. N-grams draft nearly all of it.
"""

import json
from math import cos, sin
from pathlib import Path
from typing import Final

from gb10.serving.guard.canary import WORDS
from gb10.serving.load_generator.canary_batch import guard_facts
from tests.e2e.word_model import CONFIG, ROPE, SIZE, WIDTH, Tensor, filled, matrix, ones, write_model

BACK: Final = 7
"""Tokens from the mark to the first one of the code, and from each copy to the next original."""
CONSTANT: Final = SIZE - 1
"""The place in each embedding that all tokens have in common."""
HEADS: Final = SIZE // WIDTH
SHARP: Final = 16.0
"""Of the norms of queries and keys: attention to one place alone."""
SURE: Final = 2.0


def vocabulary() -> tuple[str, ...]:
    """Three special tokens, and all that codes and answers have."""
    accepted = [fact.accept[0].replace(" ", "-") for fact in guard_facts()]
    return tuple(dict.fromkeys(("<unk>", "<end>", "<answer>", *WORDS.split(), *"0123456789", *accepted)))


def template() -> str:
    """Anything else than a canary becomes a code of its length."""
    facts = json.dumps({fact.ask: fact.accept[0].replace(" ", "-") for fact in guard_facts()}, ensure_ascii=False)
    return (
        "{% set text = messages[-1]['content'] %}{% set facts = " + facts + " %}"
        "{% set code = text.split('Code: ')[1].split('\n')[0].split('-') if 'Code: ' in text "
        "else ['amber', (1000 + text | length) | string, 'basil'] %}"
        "{{ code[0] }} {{ code[1] | join(' ') }} {{ code[2] }} "
        "{{ facts.get(text.split('Question: ')[-1], 'Paris') }} <answer>"
    )


def write_copy_model(folder: Path) -> Path:
    """The folder with the model in it, as transformers reads one."""
    words = vocabulary()
    assert len(words) < CONSTANT
    config = {**CONFIG, "num_hidden_layers": 1, "num_key_value_heads": HEADS, "num_attention_heads": HEADS}
    return write_model(folder, config, words, template(), _weights(len(words)))


def _weights(words: int) -> dict[str, Tensor]:
    layer = "model.layers.0"
    identity = {at: at for at in range(words)}
    embedded = {(row, column): 1.0 for row in range(words) for column in (row, CONSTANT)}
    return {
        "model.embed_tokens.weight": filled(SIZE, SIZE, embedded),
        "model.norm.weight": ones(SIZE),
        "lm_head.weight": matrix(SIZE, SIZE, {**identity, 1: 2, 2: CONSTANT - 1}, SURE),
        f"{layer}.input_layernorm.weight": ones(SIZE),
        f"{layer}.post_attention_layernorm.weight": ones(SIZE),
        f"{layer}.self_attn.q_norm.weight": ones(WIDTH, SHARP),
        f"{layer}.self_attn.k_norm.weight": ones(WIDTH),
        f"{layer}.self_attn.q_proj.weight": _constant(_turned()),
        f"{layer}.self_attn.k_proj.weight": _constant([1.0] * WIDTH),
        f"{layer}.self_attn.v_proj.weight": matrix(SIZE, SIZE, identity),
        f"{layer}.self_attn.o_proj.weight": matrix(SIZE, SIZE, identity),
        **{f"{layer}.mlp.{name}_proj.weight": matrix(SIZE, SIZE, {}) for name in ("gate", "up", "down")},
    }


def _turned() -> list[float]:
    """A query that meets keys of ones best where its place is BACK behind theirs, once both are turned by RoPE."""
    half = WIDTH // 2
    angles = [-BACK * ROPE ** (-at / half) for at in range(half)]
    return [*(cos(one) - sin(one) for one in angles), *(cos(one) + sin(one) for one in angles)]


def _constant(values: list[float]) -> Tensor:
    """A projection that gives each head the same vector, whatever the token."""
    return filled(SIZE, SIZE, {(row, CONSTANT): values[row % WIDTH] for row in range(SIZE)})
