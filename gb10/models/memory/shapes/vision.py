"""Tensors of an encoder for pictures, which most multimodal models keep beside the decoder. Pure.

A general form: blocks of attention and two or three matrices, and a projection into the decoder. It is exact for
Qwen's encoders; others have some more or fewer vectors.
"""

from collections.abc import Iterator

from gb10.models.memory.shapes.config_fields import Fields
from gb10.models.memory.shapes.tensor import Tensor, plain

GATED = ("gemma4_vision", "glm5_next_vision", "pixtral")
"""Encoders with three matrices in a block."""


def vision(fields: Fields) -> Iterator[Tensor]:
    """The encoder's tensors; none without a ``vision_config``."""
    config = fields.part("vision_config")
    if config.get("mm_embed_dim"):
        yield from _without_encoder(fields, Fields(config))
        return
    if not config.get("hidden_size"):
        return
    own = Fields(config)
    blocks, hidden = own.number("depth", "num_hidden_layers", largest=512), own.hidden
    inner = own.number("intermediate_size", default=4 * hidden)
    matrices = 3 if str(config.get("model_type")) in GATED else 2
    yield plain("visual.blocks.attn", 4 * hidden, hidden, copies=blocks)
    yield plain("visual.blocks.mlp", matrices * inner, hidden, copies=blocks)
    merged = own.number("spatial_merge_size", default=1, largest=64) ** 2 * hidden
    if own.text.get("out_hidden_size"):
        yield plain("visual.merger.linear_fc1", merged, merged)
        yield plain("visual.merger.linear_fc2", own.number("out_hidden_size"), merged)
    else:
        yield plain("visual.projector", fields.hidden, hidden)
    patch = own.number("patch_size", default=14, largest=256)
    frames = own.number("temporal_patch_size", default=1, largest=16)
    yield plain("visual.patch_embed", hidden, 3 * frames * patch * patch)
    positions = own.number("num_position_embeddings", default=0, largest=1 << 20)
    positions += 2 * own.number("position_embedding_size", default=0, largest=1 << 20)
    yield plain("visual.pos_embed", positions, hidden)


def _without_encoder(fields: Fields, own: Fields) -> Iterator[Tensor]:
    """Gemma 4 unified: patches of pictures and frames of sound are projected, and no encoder is between."""
    size = own.number("mm_embed_dim")
    patch = own.number("patch_size", default=16, largest=256) * own.number("pooling_kernel_size", default=3, largest=64)
    yield plain("visual.patch_dense", size, 3 * patch * patch)
    yield plain("visual.pos_embedding", 2 * own.number("mm_posemb_size", default=1120), size)
    yield plain("embed_vision.projection", own.number("output_proj_dims", default=fields.hidden), size)
    sound = Fields(fields.part("audio_config")).number("audio_embed_dim", default=0)
    yield plain("embed_audio.projection", fields.hidden, sound)
