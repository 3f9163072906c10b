"""What the releases of our images serve, and which parsers read what a model writes. From ``recipes/choose``."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Final

from pydantic import Field, StringConstraints

from gb10.core.document import parse_document
from gb10.core.fields import Model, Name
from gb10.core.installation import ROOT
from gb10.models.lint.engine_words import known_words

FOLDER: Final = ROOT / "recipes/choose"
FORMATS: Final = "recipes/choose/formats.yaml"
CONVERTED: Final = re.compile(
    r"(\w+?)(?:ForSequenceClassification|ForTokenClassification|EmbeddingModel|RewardModel|Model)"
)
"""Architectures that vLLM takes for a model that writes, and pools (config/model.py, _SUFFIX_TO_DEFAULTS)."""
METHODS: Final[Mapping[str, frozenset[str]]] = {
    "vllm": frozenset({"auto-round", "gpt_oss_mxfp4"}),
    "sglang": frozenset(),
}
"""Values of ``quant_method`` that no option has: vLLM's class of INC takes them (quantization/inc/inc.py)."""
Mark = Annotated[str, StringConstraints(min_length=1, max_length=60)]


@dataclass(frozen=True, kw_only=True, slots=True)
class Served:
    """What a release serves: the architectures of ``config.json``, and the quantizations."""

    engine: str
    release: str
    generates: frozenset[str]
    pools: frozenset[str]
    drafts: frozenset[str]
    """Those that only draft for another model."""
    transcribes: frozenset[str]
    """Those that turn speech to text and answer nothing else."""
    quantizations: frozenset[str]
    """The values of ``quant_method`` that it reads."""
    types: frozenset[str]
    """The values of ``model_type`` that it, or the transformers of its image, reads without code of the model."""

    def has(self, architecture: str) -> bool:
        """Whether it serves an architecture; vLLM also makes models that pool of those that write."""
        if architecture in self.generates | self.pools:
            return True
        converted = CONVERTED.fullmatch(architecture) if self.engine == "vllm" else None
        return converted is not None and f"{converted[1]}ForCausalLM" in self.generates


@cache
def served_by(engine: str) -> Served:
    """What the newest known release of an engine serves; made of its wheel by scripts/engine_architectures.py."""
    path = max(FOLDER.glob(f"{engine}-*.json"))
    found = json.loads(path.read_text(encoding="utf-8"))
    words = known_words(engine, found["release"])
    return Served(
        engine=engine,
        release=found["release"],
        generates=frozenset(found["generates"]),
        pools=frozenset(found["pools"]),
        drafts=frozenset(found["drafts"]),
        transcribes=frozenset(found["transcribes"]),
        types=frozenset(found["types"]),
        quantizations=frozenset(words.options["--quantization"] or ()) | METHODS[engine] if words else frozenset(),
    )


class Format(Model):
    """A row: the mark of a template, and the parsers of vLLM that read what a model with such a template writes."""

    mark: Mark
    kinds: tuple[Name, ...] = ()
    names: tuple[Mark, ...] = ()
    tools: Name
    reasoning: Name | None = None
    thinks: Mark | None = None
    """The reasoning parser counts only if this is in the template, too."""
    what: Mark

    def fits(self, template: str, kind: str, name: str) -> bool:
        """Whether the row is one of this model."""
        kinds = not self.kinds or kind in self.kinds
        return self.mark in template and kinds and (not self.names or self.matches_name(name))

    def matches_name(self, name: str) -> bool:
        """Whether one of its patterns is in a model's name."""
        return any(re.search(pattern, name, re.IGNORECASE) for pattern in self.names)

    def reasoning_for(self, template: str) -> str | None:
        """The reasoning parser for a template; None when the model does not think aloud."""
        return self.reasoning if self.thinks is None or self.thinks in template else None


class FormatFile(Model):
    """``recipes/choose/formats.yaml``."""

    formats: Annotated[tuple[Format, ...], Field(min_length=1)]


@cache
def load_formats() -> tuple[Format, ...]:
    """The rows of the checkout; raises UsageError for a file that is not valid."""
    text = (ROOT / FORMATS).read_text(encoding="utf-8")
    return parse_document(text, FormatFile, where=FORMATS, what="list of formats").formats


def format_of(template: str, kind: str, name: str) -> Format | None:
    """The row of a model; None when no mark is known."""
    return next((one for one in load_formats() if one.fits(template, kind, name)), None)


Containers = Mapping[str, str]
"""Our image of each engine, as recipes name it."""
