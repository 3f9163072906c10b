"""The formats of a model's tensors, from its quantization: ModelOpt, compressed-tensors, FP8, GPTQ and others. Pure."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from math import ceil
from typing import Final

from gb10.errors import UsageError
from gb10.models.memory.shapes.config_fields import (
    COMPRESSED,
    WAYS_OUT,
    Config,
    Fields,
    list_in,
    mapping_in,
    number_in,
    word_in,
)
from gb10.models.memory.shapes.layers import Tensor

LONGEST: Final = 300
"""Characters of a pattern."""
REPEATS: Final = 6
"""Repetitions in an expression: each multiplies its time by the length of a name."""
SLOW: Final = re.compile(r"\)[*+?{]|\\[0-9]")
"""A repeated group, or a reference back: these can take exponential time."""
PREFIXES: Final = ("", "model.", "model.language_model.", "language_model.model.", "language_model.", "backbone.")
"""What model files and configs write before ``layers.``."""
INNER: Final = re.compile(r"^(?!mtp)(?:[\w.*]*?\.)?(layers\.\d+\..*|layers\.\d+\*?)$")
"""A pattern for one layer of the decoder; those of ``mtp.layers`` are drafts."""
NUMBER: Final = re.compile(r"layers\.(\d+)")
EXPERT: Final = re.compile(r"experts\.\d+(?=\.|$)")


NESTED: Final = ("", "model.language_model.", "language_model.model.", "language_model.")
"""What stands before ``layers.`` where the decoder is a part of a model: ``model.layers`` are then not its layers."""


class NamePatterns:
    """A set of patterns, sorted by the layer that they name, so that most names meet few of them.

    ``nested`` is of a decoder that is a part of a model with pictures: an expression sees its names as they are there.
    """

    def __init__(self, patterns: Iterable[object], *, nested: bool = False) -> None:
        self.nested = nested
        self.by_layer: defaultdict[int | None, set[str]] = defaultdict(set)
        for pattern in patterns:
            if not isinstance(pattern, str) or len(pattern) > LONGEST:
                raise UsageError("the config's quantization has a module that is no name", hint="docs/models.md")
            self._add(EXPERT.sub("experts.*", pattern))

    def _add(self, pattern: str) -> None:
        inner = INNER.match(pattern)
        name = inner[1] if inner else pattern
        number = None if name.startswith("re:") else NUMBER.match(name)
        self.by_layer[int(number[1]) if number else None].add(name)

    def __bool__(self) -> bool:
        return bool(self.by_layer)

    def match(self, name: str) -> bool:
        """Whether a pattern names the module, or one around it."""
        number = NUMBER.match(name)
        near = self.by_layer.get(int(number[1]), set()) if number else set()
        parents = set(_around(name))
        return bool(parents & near) or any(
            _matches(one, name, self.nested) for one in (*near, *self.by_layer.get(None, ()))
        )


def _around(name: str) -> Iterator[str]:
    """The name, and each module around it."""
    parts = name.split(".")
    yield from (".".join(parts[:length]) for length in range(len(parts), 0, -1))


@lru_cache(maxsize=1 << 16)
def _matches(pattern: str, name: str, nested: bool) -> bool:
    if pattern.startswith("re:"):
        expression = _expression(pattern[3:])
        before = NESTED if nested and name.startswith("layers.") else PREFIXES
        numbered = name.replace(".*", ".0")  # one of the experts: an expression may ask for its number
        return any(expression.match(prefix + numbered) for prefix in before)
    spelled = [prefix + name for prefix in PREFIXES]
    if "*" in pattern or "?" in pattern or "[" in pattern:
        return any(fnmatchcase(one, pattern) or fnmatchcase(one, f"{pattern}.*") for one in spelled)
    return ("." not in pattern and pattern in name.split(".")) or any(pattern in _around(one) for one in spelled)


@lru_cache(maxsize=1024)
def _expression(text: str) -> re.Pattern[str]:
    if SLOW.search(text) or len(re.findall(r"[*+{]", text)) > REPEATS:
        raise UsageError(
            f"the config's quantization has an expression that may take too long: {text[:80]!r}",
            hint="give the model's files: --weights DIR",
        )
    try:
        return re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise UsageError(f"the config's quantization has a wrong expression {text[:80]!r}", where=str(error)) from error


@dataclass(frozen=True, kw_only=True, slots=True)
class Format:
    """``bits`` of a number. A scale of ``scale`` bytes for each ``group`` columns, or for each block of columns and
    rows, or for each row, or for each tensor; ``zero`` bits of a zero point beside each scale.

    ``fixed`` are bytes of each tensor: a scale of the whole, a shape; ``per_column`` are bytes of each column.
    """

    name: str
    bits: int
    group: int = 0
    block: int = 0
    scale: int = 0
    by_row: bool = False
    zero: int = 0
    fixed: int = 0
    per_column: int = 0

    def size(self, tensor: Tensor) -> int:
        """Bytes of a tensor with its scales, in all copies."""
        return sum(self.pieces(tensor))

    def pieces(self, tensor: Tensor) -> tuple[int, ...]:
        """Bytes, in all copies, of each tensor that an engine keeps for it: numbers, scales, zero points, the rest."""
        rows, columns = tensor.rows, tensor.columns
        numbers = ceil(rows * columns * self.bits / 8)
        if self.block:
            scales = ceil(rows / self.block) * ceil(columns / self.block)
        elif self.group:
            scales = rows * ceil(columns / self.group)
        else:
            scales = rows if self.by_row else 1
        zeros = ceil(scales * self.zero / 8)
        found = (numbers, scales * self.scale, zeros, self.fixed, columns * self.per_column)
        return tuple(piece * tensor.copies for piece in found)


NVFP4: Final = Format(name="nvfp4", bits=4, group=16, scale=1, fixed=8)
MXFP4: Final = Format(name="mxfp4", bits=4, group=32, scale=1)
MXFP8: Final = Format(name="mxfp8", bits=8, group=32, scale=1)
FP8: Final = Format(name="fp8", bits=8, scale=4, fixed=4)
FP8_ROWS: Final = Format(name="fp8-channel", bits=8, scale=2, by_row=True)
NAMED: Final[Mapping[str, Format]] = {
    "NVFP4": NVFP4,
    "W4A16_NVFP4": NVFP4,
    "NVFP4_AWQ": NVFP4,
    "MXFP4": MXFP4,
    "W4A8_MXFP4_FP8": MXFP4,
    "MXFP8": MXFP8,
    "FP8": FP8,
    "FP8_PER_CHANNEL_PER_TOKEN": FP8_ROWS,
    "FP8_PB_WO": Format(name="fp8-block", bits=8, block=128, scale=4),
}
"""ModelOpt's names of algorithms."""


def blocks(size: int, scale: int) -> Format:
    """FP8 with a scale for each square block."""
    return Format(name="fp8-block", bits=8, block=size, scale=scale)


def integers(bits: int, group: int, *, zero: bool, order: bool = False) -> Format:
    """Whole numbers with a scale (and zero points) for each group of columns, or for each row when there is none."""
    return Format(
        name=f"int{bits}",
        bits=bits,
        group=group,
        scale=2,
        by_row=not group,
        zero=bits if zero else 0,
        per_column=4 if order else 0,
    )


IGNORED: Final = ("ignore", "exclude_modules", "modules_to_not_convert", "ignored_layers")
"""Where configs list modules that stay as they are."""
WIDTHS: Final[Mapping[str, int]] = {"bfloat16": 2, "float16": 2, "float32": 4, "float8_e4m3fn": 1}
INTEGERS: Final = ("gptq", "gptq_marlin", "awq", "awq_marlin", "auto-round", "auto_round", "intel/auto-round")
HEAD: Final = "lm_head"


Rules = tuple[tuple[NamePatterns | None, Format], ...]
"""Names, or None for all projections, and their format."""


class UnknownMethodError(Exception):
    """A quantization whose bytes are not known."""


@dataclass(frozen=True, kw_only=True)
class Scheme:
    """``width`` is the bytes of a number that is not quantized. The first rule that names a module decides."""

    width: int
    rules: Rules = ()
    ignored: NamePatterns
    cache: str | None = None
    """The type of the KV cache that the model file was made for, such as ``fp8``."""
    unknown: str = ""
    """Why it has no rules, though the config names a quantization."""

    def size(self, tensor: Tensor) -> int:
        """Bytes of a tensor."""
        return sum(self.pieces(tensor))

    def pieces(self, tensor: Tensor) -> tuple[int, ...]:
        """Bytes of the tensors that it is kept in, as ``Format.pieces`` orders them."""
        found = self.format_of(tensor)
        return found.pieces(tensor) if found else (tensor.elements * (tensor.width or self.width),)

    def format_of(self, tensor: Tensor) -> Format | None:
        """The format of a projection; None for a tensor of the model's own type."""
        if not tensor.linear:
            return None
        chosen = next((format for names, format in self.rules if names is not None and names.match(tensor.name)), None)
        general = next((format for names, format in self.rules if names is None), None)
        if chosen is not None or general is None:
            return chosen
        return None if self.ignored.match(tensor.name) else general


def read_scheme(config: Config, *, weights_read: bool = False) -> Scheme:
    """The scheme of a config; raises UsageError for a quantization that is not known.

    ``weights_read``: the bytes of the weights are known, so such a one has no rules.
    """
    fields = Fields(config)
    given = mapping_in(config, "quantization_config") or mapping_in(fields.text, "quantization_config")
    quantization = {**given, **mapping_in(given, "quantization")}
    dtype = word_in({"dtype": fields.text.get("dtype") or fields.text.get("torch_dtype")}, "dtype") or "bfloat16"
    width = WIDTHS.get(dtype.removeprefix("torch."), 2)
    skipped = [name for key in IGNORED for name in list_in(quantization, key)]
    unknown = ""
    try:
        rules, never = _rules(quantization, fields)
    except UnknownMethodError as error:
        if not weights_read:
            raise UsageError(str(error), hint=WAYS_OUT) from error
        rules, never, unknown = (), (), str(error)
    # A KV cache of eight bits is a word, or a scheme.
    scheme = quantization.get("kv_cache_scheme")
    bits = scheme.get("num_bits") if isinstance(scheme, Mapping) else None
    cache = "fp8" if "FP8" in (quantization.get("kv_cache_quant_algo"), scheme) or bits == 8 else None
    ignored = NamePatterns((*skipped, *never), nested=fields.text is not fields.config)
    return Scheme(width=width, rules=rules, ignored=ignored, cache=cache, unknown=unknown)


def _rules(quantization: Config, fields: Fields) -> tuple[Rules, tuple[str, ...]]:
    """The rules, and modules that they never mean. Raises UsageError, UnknownMethodError."""
    method = word_in(quantization, "quant_method").lower()
    algorithm = word_in(quantization, "quant_algo").upper()
    if not method and not algorithm:
        return (), ()
    if fields.kind in COMPRESSED:
        # FP8 in blocks, and experts in four bits; ModelOpt's files have NVFP4 for them.
        experts = NAMED.get(word_in(quantization, "moe_quant_algo").upper())
        four = "fp4" in (fields.text.get("expert_dtype"), quantization.get("expert_dtype"))
        routed = [(NamePatterns(["re:layers.*ffn.experts.*"]), experts or MXFP4)] if experts or four else []
        drafts = [(NamePatterns(["re:mtp.*ffn.experts.*"]), MXFP4)] if four else []
        rest = _fp8({**quantization, "weight_block_size": quantization.get("weight_block_size") or [128, 128]})
        return (*routed, *drafts, (NamePatterns(["re:.*(attn|ffn|eh_proj|engram)"]), rest)), ()
    if quantization.get("quantized_layers"):
        return tuple(_by_layer(quantization)), ()
    if algorithm in NAMED:
        return ((None, NAMED[algorithm]),), ()
    if quantization.get("config_groups"):
        return tuple(_groups(quantization)), ()
    return _of_method(quantization, method or algorithm), (HEAD,)


def _of_method(quantization: Config, method: str) -> Rules:
    """The one rule of a method that treats all projections alike. Raises UsageError, UnknownMethodError."""
    if method in INTEGERS:
        # GPTQ, AWQ and AutoRound. GPTQ's files keep zero points always, and the order of columns.
        size = quantization.get("group_size", 128)
        group = 0 if size in (-1, None) else number_in({"group_size": size}, "group_size", 1 << 16)
        bits = number_in({"bits": quantization.get("bits") or quantization.get("w_bit")}, "bits", 8)
        return ((None, integers(bits, group, zero=True, order=method.startswith("gptq"))),)
    if method == "fp8":
        # Ling keeps the routed experts of its files in four bits (vLLM 0.33.0, models/bailing_moe_v3.py).
        four = word_in(quantization, "routed_experts_quant_method").lower() == "mxfp4"
        routed = [(NamePatterns(["re:.*mlp.experts.*"]), MXFP4)] if four else []
        return (*routed, (None, _fp8(quantization)))
    if method == "mxfp4":
        return ((NamePatterns(["re:.*experts.*"]), MXFP4),)
    raise UnknownMethodError(f"the quantization '{method[:80]}' is not known")


def _by_layer(quantization: Config) -> Iterable[tuple[NamePatterns, Format]]:
    """ModelOpt's mixed precision: an algorithm for each module."""
    found: dict[str, list[str]] = {}
    for name, entry in mapping_in(quantization, "quantized_layers").items():
        found.setdefault(word_in(entry if isinstance(entry, Mapping) else {}, "quant_algo").upper(), []).append(name)
    for algorithm, names in found.items():
        if algorithm not in NAMED:
            raise UnknownMethodError(f"the quantization '{algorithm[:80]}' is not known")
        yield NamePatterns(names), NAMED[algorithm]


def _groups(quantization: Config) -> Iterable[tuple[NamePatterns | None, Format]]:
    """The groups of compressed-tensors; one for all ``Linear`` comes last."""
    groups = [
        mapping_in(mapping_in(quantization, "config_groups"), name)
        for name in mapping_in(quantization, "config_groups")
    ]
    for group in sorted(groups, key=lambda one: "Linear" in list_in(one, "targets")):
        targets = list_in(group, "targets")
        names = None if "Linear" in targets else NamePatterns(targets)
        weights = mapping_in(group, "weights")
        if weights:
            yield names, _compressed(weights, f"{word_in(quantization, 'format')} {word_in(group, 'format')}")


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


def _fp8(quantization: Config) -> Format:
    size = list_in(quantization, "weight_block_size")
    if not size:
        return FP8
    scale = 1 if word_in(quantization, "scale_fmt") == "ue8m0" else 4
    return blocks(number_in({"weight_block_size": size[0]}, "weight_block_size", 1024), scale)
