"""Tensors of mixers with a state: gated delta networks (Qwen, Kimi) and Mamba 2 (Nemotron-H). Pure."""

from collections.abc import Iterator

from gb10.models.memory.shapes.config_fields import Fields
from gb10.models.memory.shapes.tensor import Tensor, linear, plain
from gb10.models.model_config import mapping_in


def delta(fields: Fields, at: str) -> Iterator[Tensor]:
    """A gated delta network. Qwen3-Next has two input projections, Qwen3.5 four; the numbers are the same."""
    heads, keys = fields.number("linear_num_value_heads"), fields.number("linear_num_key_heads")
    key, value = fields.number("linear_key_head_dim"), fields.number("linear_value_head_dim")
    mixed = 2 * keys * key + heads * value
    if fields.kind == "qwen3_next":
        yield linear(f"{at}.in_proj_qkvz", fields.hidden, mixed + heads * value)
        yield linear(f"{at}.in_proj_ba", fields.hidden, 2 * heads)
    else:
        yield linear(f"{at}.in_proj_qkv", fields.hidden, mixed)
        yield linear(f"{at}.in_proj_z", fields.hidden, heads * value)
        yield linear(f"{at}.in_proj_a", fields.hidden, heads)
        yield linear(f"{at}.in_proj_b", fields.hidden, heads)
    yield linear(f"{at}.out_proj", heads * value, fields.hidden)
    yield plain(f"{at}.conv1d", mixed, fields.number("linear_conv_kernel_dim"))
    yield plain(f"{at}.A_log", heads)
    yield plain(f"{at}.dt_bias", heads)


def kimi_delta(fields: Fields, at: str) -> Iterator[Tensor]:
    """Kimi's delta attention: three projections with a convolution each, a decay of low rank, and a gate."""
    own = Fields(mapping_in(fields.text, "linear_attn_config"))
    heads, size = own.number("num_heads", largest=4096), own.number("head_dim")
    inner, hidden = heads * size, fields.hidden
    for name in ("q_proj", "k_proj", "v_proj"):
        yield linear(f"{at}.{name}", hidden, inner)
    yield linear(f"{at}.o_proj", inner, hidden)
    yield linear(f"{at}.b_proj", hidden, heads)
    low = ("f",) if own.flag("use_full_rank_gate") else ("f", "g")
    for name in low:
        yield linear(f"{at}.{name}_a_proj", hidden, size)
        yield linear(f"{at}.{name}_b_proj", size, inner)
    if "g" not in low:
        yield linear(f"{at}.g_proj", hidden, inner)
    yield plain(f"{at}.conv1d", 3 * inner, own.number("short_conv_kernel_size"), width=4)
    yield plain(f"{at}.dt_bias", inner + heads, width=4)


def mamba(fields: Fields, at: str) -> Iterator[Tensor]:
    """Mamba 2: the inner width is heads x head size."""
    heads, size = fields.number("mamba_num_heads"), fields.number("mamba_head_dim")
    groups = fields.number("n_groups") * fields.number("ssm_state_size")
    inner = heads * size
    yield linear(f"{at}.in_proj", fields.hidden, 2 * inner + 2 * groups + heads)
    yield linear(f"{at}.out_proj", inner, fields.hidden)
    yield plain(f"{at}.conv1d", inner + 2 * groups, fields.number("conv_kernel") + 1)
    yield plain(f"{at}.A_log_D_dt_bias", 3 * heads)
