"""The metadata of GGUF files, without reading a weight: the model's shape, its chat template, its files. Pure.

The format is ggml's (docs/gguf.md, versions 2 and 3): magic, counts, then keys with typed values, little-endian. Its
author is unknown: counts, lengths and depth are checked, and what is not needed is read past.
"""

import re
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from gb10.errors import UsageError
from gb10.models.memory.cache import Cache
from gb10.models.memory.model import Model

SUFFIX: Final = ".gguf"
PROJECTOR: Final = "mmproj"
"""What the name of a file for pictures holds: llama.cpp reads it beside the model."""
SHARD: Final = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.IGNORECASE)
QUANT: Final = re.compile(
    r"[-._/]((?:UD-)?(?:I?Q\d+(?:_[A-Z0-9]+)*|TQ\d_\d|MXFP4(?:_MOE)?|NVFP4|BF16|F16|F32))(?:-\d{5}-of-\d{5})?\.gguf$",
    re.I,
)
"""The kind of quantization in a file's name, by which llama.cpp chooses one of a repository."""
MAGIC: Final = b"GGUF"
VERSIONS: Final = (2, 3)
MOST_KEYS: Final = 10_000
MOST_ENTRIES: Final = 4_000_000
"""Entries of an array: the tokens and merges of a tokenizer."""
MOST_LAYERS: Final = 2048
LONGEST_KEY: Final = 512
LONGEST: Final = 8 << 20
"""Bytes of a text."""
LARGEST: Final = 256 << 20
"""Bytes of the whole metadata."""
NUMBERS: Final[Mapping[int, str]] = dict(enumerate("BbHhIif?")) | {10: "Q", 11: "q", 12: "d"}
TEXT, ARRAY = 8, 9
WIDEST: Final = 1 << 24
CELL: Final = 2
"""Bytes of a number in llama.cpp's cache: FP16, its default."""

Value = str | int | float | bool | tuple[int | float | bool, ...] | None


class Stream(Protocol):
    """A file, or the body of an answer."""

    def read(self, size: int, /) -> bytes: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class GgufFile:
    """What a GGUF file says of its model."""

    file: str
    values: Mapping[str, Value]

    @property
    def architecture(self) -> str:
        """llama.cpp's name of the architecture: ``llama``, ``qwen3moe``."""
        return str(self.values.get("general.architecture") or "")[:100]

    @property
    def template(self) -> str:
        """The chat template; empty without one."""
        return str(self.values.get("tokenizer.chat_template") or "")

    @property
    def longest(self) -> int:
        """The longest context that the model was made for, in tokens; 0 when the file does not say."""
        return self.number("context_length", default=0)

    @property
    def pooling(self) -> int:
        """llama.cpp's kind of pooling: 0 is none (a model that writes), 4 a rank, others embeddings."""
        return self.number("pooling_type", default=0)

    def number(self, name: str, default: int | None = None) -> int:
        """A whole number of the architecture; raises UsageError for one that is absent or cannot be right."""
        found = self.values.get(f"{self.architecture}.{name}")
        if found is None and default is not None:
            return default
        if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found <= WIDEST:
            raise UsageError(
                f"{self.file} says no usable {self.architecture}.{name}", hint="download the file again, or another one"
            )
        return found

    def key_heads(self, layers: int) -> int:
        """Heads of keys in all layers together: one number for each layer, or one a layer (0: no attention)."""
        own = f"{self.architecture}.attention.head_count_kv" in self.values
        name = "attention.head_count_kv" if own else "attention.head_count"
        found = self.values.get(f"{self.architecture}.{name}")
        if isinstance(found, tuple):
            return sum(int(one) for one in found[:layers] if 0 < one <= WIDEST)
        return layers * self.number(name)

    def head_width(self, part: str) -> int:
        """Numbers of a head's key or value."""
        if f"{self.architecture}.attention.{part}_length" in self.values:
            return self.number(f"attention.{part}_length")
        heads = self.values.get(f"{self.architecture}.attention.head_count")
        if isinstance(heads, tuple):  # one a layer: those of the first that has any
            count = next((int(one) for one in heads if 0 < one <= WIDEST), 1)
        else:
            count = self.number("attention.head_count")
        return self.number("embedding_length") // max(count, 1)


def read_gguf(stream: Stream, file: str) -> GgufFile:
    """The metadata of a file, from its start. Raises UsageError for what is no GGUF file, or is cut."""
    reader = _Reader(stream, file)
    magic, version = reader.take(4), reader.number("I")
    if magic != MAGIC or version not in VERSIONS:
        raise UsageError(f"{file} is no GGUF file of version 2 or 3", hint="download the file again")
    reader.number("Q")  # tensors: their sizes are those of the file
    count, values = reader.count(MOST_KEYS), dict[str, Value]()
    for _ in range(count):
        name = reader.text(LONGEST_KEY)
        values[name] = reader.value(int(reader.number("I")))
    return GgufFile(file=file, values=values)


class _Reader:
    """A stream that is read in order and up to LARGEST bytes."""

    def __init__(self, stream: Stream, file: str) -> None:
        self.stream, self.file, self.left = stream, file, LARGEST

    def take(self, size: int) -> bytes:
        self.left -= size
        found = self.stream.read(size) if self.left >= 0 else b""
        if len(found) != size:
            raise UsageError(f"{self.file} is no whole GGUF file: its metadata is cut", hint="download the file again")
        return found

    def number(self, kind: str) -> int | float | bool:
        found: int | float | bool = struct.unpack(f"<{kind}", self.take(struct.calcsize(f"<{kind}")))[0]
        return found

    def count(self, most: int) -> int:
        found = int(self.number("Q"))
        if found > most:
            raise UsageError(f"{self.file} says that it has {found} of what {most} is much", hint="do not use it")
        return found

    def text(self, most: int) -> str:
        return self.take(self.count(most)).decode("utf-8", "replace")

    def value(self, kind: int) -> Value:
        """A value; of an array only numbers, one a layer, are kept."""
        if kind == TEXT:
            return self.text(LONGEST)
        if kind == ARRAY:
            inner, count = int(self.number("I")), self.count(MOST_ENTRIES)
            if inner == TEXT:
                for _ in range(count):
                    self.take(self.count(LONGEST))
                return None
            if inner in NUMBERS:
                letter = NUMBERS[inner]
                content = self.take(count * struct.calcsize(f"<{letter}"))
                return struct.unpack(f"<{count}{letter}", content) if count <= MOST_LAYERS else None
            kind = inner  # an array of arrays is in no model that llama.cpp reads
        if kind not in NUMBERS:
            raise UsageError(f"{self.file} has a value of a type that GGUF has not: {kind}", hint="do not use it")
        return self.number(NUMBERS[kind])


def gguf_model(found: GgufFile, name: str, size: int) -> Model:
    """The sizes of a model: its files take ``size`` bytes, and its cache what attention that keeps all tokens takes.

    That is the most: llama.cpp keeps less of layers with a window, a latent or a state. Raises UsageError.
    """
    if not found.architecture or found.architecture == "clip":
        what = "is the encoder of pictures of a model, not the model" if found.architecture else "names no architecture"
        raise UsageError(f"{found.file} {what}", hint="name the file of the model itself")
    layers = found.number("block_count")
    key, value = (found.head_width(part) for part in ("key", "value"))
    return Model(
        name=name,
        whole=size,
        known="computed",
        source=f"the size of {found.file}",
        cache=Cache(token=float(found.key_heads(layers) * (key + value) * CELL)),
        cache_source=f"the metadata of {found.file}: at most, as attention that keeps all tokens in each layer",
        kind=found.architecture,
    )


def kinds_of(names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """GGUF files by the model that they are: the parts of one that was split are together, files for pictures aside.

    The key is the first file's name, which llama.cpp gets.
    """
    found: dict[str, list[str]] = {}
    for name in sorted(names):
        last = name.rpartition("/")[2].lower()
        if last.endswith(SUFFIX) and PROJECTOR not in last:
            part = SHARD.fullmatch(name)
            found.setdefault(part["stem"] if part else name, []).append(name)
    return {parts[0]: tuple(parts) for parts in found.values()}


def missing_parts(first: str, parts: Iterable[str]) -> list[str]:
    """The parts of a model that was split which are not among its files."""
    part = SHARD.fullmatch(first)
    if part is None:
        return []
    count = int(part["count"])
    rest = first[part.end("number") :]
    names = [f"{part['stem']}-{number:05d}{rest}" for number in range(1, min(count, 1000) + 1)]
    return sorted({*names} - {*parts})


def quant_of(name: str) -> str:
    """The kind that a file's name ends in: ``Q4_K_M``; empty when it has none."""
    found = QUANT.search(name)
    return found[1].upper() if found else ""
