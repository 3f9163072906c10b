"""The formats of a model's tensors, from its quantization: ModelOpt, compressed-tensors, FP8, GPTQ and others. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from gb10.errors import UsageError
from gb10.models.memory.shapes.config_fields import Fields
from gb10.models.memory.shapes.layer_plan import WAYS_OUT
from gb10.models.memory.shapes.tensor import Tensor
from gb10.models.memory.weights.name_patterns import NamePatterns
from gb10.models.memory.weights.stored import FP8, FP8_ROWS, MXFP4, NAMED, NVFP4, Format, blocks, integers
from gb10.models.model_config import Config, list_in, mapping_in, number_in, word_in

IGNORED: Final = ("ignore", "exclude_modules", "modules_to_not_convert", "ignored_layers")
"""Where configs list modules that stay as they are."""
WIDTHS: Final[Mapping[str, int]] = {"bfloat16": 2, "float16": 2, "float32": 4, "float8_e4m3fn": 1}
INTEGERS: Final = ("gptq", "gptq_marlin", "awq", "awq_marlin", "auto-round", "auto_round", "intel/auto-round")
HEAD: Final = "lm_head"


Rules = tuple[tuple[NamePatterns | None, Format], ...]
"""Names, or None for all projections, and their format."""


@dataclass(frozen=True, kw_only=True)
class Scheme:
    """``width`` is the bytes of a number that is not quantized. The first rule that names a module decides."""

    width: int
    rules: Rules = ()
    ignored: NamePatterns
    cache: str | None = None
    """The type of the KV cache that the model file was made for, such as ``fp8``."""

    def size(self, tensor: Tensor) -> int:
        """Bytes of a tensor."""
        found = self.format_of(tensor)
        return found.size(tensor) if found else tensor.elements * (tensor.width or self.width)

    def format_of(self, tensor: Tensor) -> Format | None:
        """The format of a projection; None for a tensor of the model's own type."""
        if not tensor.linear:
            return None
        chosen = next((format for names, format in self.rules if names is not None and names.match(tensor.name)), None)
        general = next((format for names, format in self.rules if names is None), None)
        if chosen is not None or general is None:
            return chosen
        return None if self.ignored.match(tensor.name) else general


def read_scheme(config: Config) -> Scheme:
    """The scheme of a config; raises UsageError for a quantization that is not known."""
    fields = Fields(config)
    given = mapping_in(config, "quantization_config") or mapping_in(fields.text, "quantization_config")
    told = {**given, **mapping_in(given, "quantization")}
    dtype = word_in({"dtype": fields.text.get("dtype") or fields.text.get("torch_dtype")}, "dtype") or "bfloat16"
    width = WIDTHS.get(dtype.removeprefix("torch."), 2)
    skipped = [name for key in IGNORED for name in list_in(told, key)]
    rules, never = _rules(told, fields)
    return Scheme(
        width=width,
        rules=rules,
        ignored=NamePatterns((*skipped, *never)),
        cache="fp8" if _small_cache(told) else None,
    )


def _small_cache(told: Config) -> bool:
    """Whether the file says that its KV cache has eight bits: as a word, or as a scheme."""
    scheme = told.get("kv_cache_scheme")
    bits = scheme.get("num_bits") if isinstance(scheme, Mapping) else None
    return "FP8" in (told.get("kv_cache_quant_algo"), scheme) or bits == 8


def _rules(told: Config, fields: Fields) -> tuple[Rules, tuple[str, ...]]:
    """The rules, and modules that they never mean."""
    method = word_in(told, "quant_method").lower()
    algorithm = word_in(told, "quant_algo").upper()
    if not method and not algorithm:
        return (), ()
    if fields.kind == "deepseek_v4":
        return _deepseek_v4(told, fields), ()
    if told.get("quantized_layers"):
        return tuple(_by_layer(told)), ()
    if algorithm in NAMED:
        return ((None, NAMED[algorithm]),), ()
    if told.get("config_groups"):
        return tuple(_groups(told)), ()
    return _of_method(told, method or algorithm), (HEAD,)


def _of_method(told: Config, method: str) -> Rules:
    """The one rule of a method that treats all projections alike; raises UsageError for an unknown one."""
    if method in INTEGERS:
        return ((None, _integers(told, method)),)
    if method == "fp8":
        return ((None, _fp8(told)),)
    if method == "mxfp4":
        return ((NamePatterns(["re:.*experts.*"]), MXFP4),)
    raise UsageError(f"the quantization '{method[:80]}' is not known", hint=WAYS_OUT)


def _by_layer(told: Config) -> Iterable[tuple[NamePatterns, Format]]:
    """ModelOpt's mixed precision: an algorithm for each module."""
    found: dict[str, list[str]] = {}
    for name, entry in mapping_in(told, "quantized_layers").items():
        found.setdefault(word_in(entry if isinstance(entry, Mapping) else {}, "quant_algo").upper(), []).append(name)
    for algorithm, names in found.items():
        if algorithm not in NAMED:
            raise UsageError(f"the quantization '{algorithm[:80]}' is not known", hint=WAYS_OUT)
        yield NamePatterns(names), NAMED[algorithm]


def _groups(told: Config) -> Iterable[tuple[NamePatterns | None, Format]]:
    """The groups of compressed-tensors; one for all ``Linear`` comes last."""
    groups = [mapping_in(mapping_in(told, "config_groups"), name) for name in mapping_in(told, "config_groups")]
    for group in sorted(groups, key=lambda one: "Linear" in list_in(one, "targets")):
        targets = list_in(group, "targets")
        names = None if "Linear" in targets else NamePatterns(targets)
        weights = mapping_in(group, "weights")
        if weights:
            yield names, _compressed(weights, f"{word_in(told, 'format')} {word_in(group, 'format')}")


def _compressed(weights: Config, layout: str) -> Format:
    """A format of compressed-tensors."""
    bits, floating = number_in(weights, "num_bits", 16), word_in(weights, "type") == "float"
    group = number_in({"group_size": weights.get("group_size") or 0}, "group_size", 1 << 16, least=0)
    if floating and bits == 4:
        return NVFP4 if group == 16 and "mxfp4" not in layout else MXFP4
    if floating:
        shape = list_in(weights, "block_structure")
        square = shape[0] if shape and isinstance(shape[0], int) and 0 < shape[0] <= 1024 else 128
        strategy = word_in(weights, "strategy")
        return blocks(square, 4) if strategy == "block" else FP8_ROWS if strategy == "channel" else FP8
    return integers(bits, max(group, 0), zero=weights.get("symmetric") is False)


def _integers(told: Config, method: str) -> Format:
    """GPTQ, AWQ and AutoRound. GPTQ's files keep zero points always, and the order of columns."""
    size = told.get("group_size", 128)
    group = 0 if size in (-1, None) else number_in({"group_size": size}, "group_size", 1 << 16)
    bits = number_in({"bits": told.get("bits") or told.get("w_bit")}, "bits", 8)
    return integers(bits, group, zero=True, order=method.startswith("gptq"))


def _fp8(told: Config) -> Format:
    size = list_in(told, "weight_block_size")
    if not size:
        return FP8
    scale = 1 if word_in(told, "scale_fmt") == "ue8m0" else 4
    return blocks(number_in({"weight_block_size": size[0]}, "weight_block_size", 1024), scale)


def _deepseek_v4(told: Config, fields: Fields) -> Rules:
    """FP8 in blocks, and experts in four bits; ModelOpt's files have NVFP4 for them."""
    experts = NAMED.get(word_in(told, "moe_quant_algo").upper())
    four = fields.text.get("expert_dtype") == "fp4"
    routed = [(NamePatterns(["re:layers.*ffn.experts.*"]), experts or MXFP4)] if experts or four else []
    drafts = [(NamePatterns(["re:mtp.*ffn.experts.*"]), MXFP4)] if four else []
    rest = _fp8({**told, "weight_block_size": told.get("weight_block_size") or [128, 128]})
    return (*routed, *drafts, (NamePatterns(["re:.*(attn|ffn|eh_proj)"]), rest))
