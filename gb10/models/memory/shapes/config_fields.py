"""The fields of a config that decide a decoder's tensors, under the several names that families give them. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from gb10.models.model_config import Config, list_in, mapping_in, number_in, text_config, word_in

WIDEST: Final = 1 << 20
"""The largest width, of a hidden state or a projection."""
MOST_LAYERS: Final = 512
MOST_EXPERTS: Final = 1 << 14
ALIASES: Final = {"step3p5": "step3p7", "mimo_v2": "mimo_v2_flash", "deepseek_ref": "deepseek_v4"}
"""Types whose decoders have the same fields and tensors."""
LARGEST_VOCABULARY: Final = 1 << 24


@dataclass(frozen=True, slots=True)
class Fields:
    """A config's decoder fields. Each reading raises UsageError for a missing or a wrong value."""

    config: Config
    text: Config = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", text_config(self.config))

    @property
    def kind(self) -> str:
        """The type of the decoder: ``qwen3_5_moe`` for its text config, too."""
        kind = word_in(self.text, "model_type").removesuffix("_text")
        return ALIASES.get(kind, kind)

    def number(self, *names: str, default: int | None = None, largest: int = WIDEST) -> int:
        """The first of these fields that is there and not null; the default when none is."""
        found = next((name for name in names if self.text.get(name) is not None), None)
        if found is None and default is not None:
            return default
        return number_in(self.text, found or names[0], largest, least=0 if default is not None else 1)

    def flag(self, name: str, *, default: bool = False) -> bool:
        """A switch; anything but true is false."""
        return bool(self.text.get(name, default) is True)

    def entries(self, name: str) -> tuple[Any, ...]:
        """A list with one entry a layer; empty when it is absent."""
        return list_in(self.text, name)[: MOST_LAYERS + 1]

    def part(self, name: str) -> Config:
        """An object of the whole config, such as ``vision_config``."""
        return mapping_in(self.config, name)

    @property
    def hidden(self) -> int:
        """Columns of the hidden state."""
        return self.number("hidden_size")

    @property
    def layers(self) -> int:
        """Layers of the decoder, drafts left out. Some hybrids have a list of their kinds only."""
        listed = len(self.entries("layers_block_type"))
        return self.number("num_hidden_layers", default=listed or None, largest=MOST_LAYERS)

    @property
    def vocabulary(self) -> int:
        """Rows of the embedding."""
        return self.number("vocab_size", largest=LARGEST_VOCABULARY)

    @property
    def tied(self) -> bool:
        """Whether the output uses the embedding's tensor. Gemma's default is true, as in transformers."""
        return self.flag("tie_word_embeddings", default=self.kind.startswith("gemma"))

    @property
    def heads(self) -> int:
        """Query heads."""
        return self.number("num_attention_heads", largest=4096)

    @property
    def kv_heads(self) -> int:
        """Key and value heads; without the field as many as query heads."""
        names = ("num_key_value_heads", "num_attention_groups")
        return self.number(*names, default=self.heads, largest=4096) or self.heads

    @property
    def head_size(self) -> int:
        """Columns of a head."""
        return self.number("head_dim", default=0) or self.hidden // self.heads

    @property
    def experts(self) -> int:
        """Routed experts of a layer; 0 for a dense model."""
        names = ("num_experts", "n_routed_experts", "moe_num_experts", "num_local_experts")
        return self.number(*names, default=0, largest=MOST_EXPERTS)

    @property
    def draft_layers(self) -> int:
        """Layers that the model file has for multi-token prediction."""
        names = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules")
        return self.number(*names, default=0, largest=16)

    def per_layer(self) -> Iterator[int]:
        """The numbers of the layers."""
        return iter(range(self.layers))
