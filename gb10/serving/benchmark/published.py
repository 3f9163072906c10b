"""What others published for a model on a DGX Spark: rows of our model recipes, and of recipes/bench/published.yaml."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import ConfigDict, Field

from gb10.core.document import parse_document
from gb10.core.fields import Model
from gb10.core.installation import ROOT
from gb10.models.load.loading import load_model_recipe
from gb10.models.load.model_recipe import Measurement, own_section

FILE: Final = "recipes/bench/published.yaml"
FORMS: Final = re.compile(
    r"[-_.](?:gguf|nvfp4|mxfp4|fp8|fp4|bf16|awq|gptq|int[48]|w\d+a\d+|q\d_\w+|qat|dynamic|it|instruct|\d{4})(?=[-_.]|$)"
)
"""What a name says of the form of the weights, or of its day: not which model it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """One published row, with the name of the model files."""

    model: str
    row: Measurement


class _Entry(Model):
    model_config = ConfigDict(alias_generator=None)
    model: str
    rows: Annotated[tuple[Measurement, ...], Field(min_length=1, max_length=200)]


class _File(Model):
    model_config = ConfigDict(alias_generator=None)
    models: Annotated[tuple[_Entry, ...], Field(max_length=1000)]


def family(model: str) -> str:
    """``nvidia/Qwen3-30B-A3B-FP4`` and ``Qwen/Qwen3-30B-A3B`` as ``qwen3-30b-a3b``. Pure."""
    name = model.rstrip("/").rpartition("/")[2].lower()
    while name != (shorter := FORMS.sub("", name)):
        name = shorter
    return name


def published(model: str) -> tuple[Published, ...]:
    """The rows of a model's family, each once, by requests at once; those that failed are left out."""
    own = family(model)
    found = {one: None for one in _all() if family(one.model) == own and one.row.tokens_per_s is not None}
    return tuple(sorted(found, key=lambda one: (one.row.concurrency, -(one.row.tokens_per_s or 0))))


def _all() -> Iterator[Published]:
    for path in sorted((ROOT / "recipes/models").glob("*.yaml")):
        recipe = load_model_recipe(path.read_text(encoding="utf-8"), str(path))
        for row in own_section(recipe).measured:
            yield Published(model=row.checkpoint or recipe.model or "", row=row)
    text = (ROOT / FILE).read_text(encoding="utf-8")
    for entry in parse_document(text, _File, where=FILE, what="list of published figures").models:
        yield from (Published(model=entry.model, row=row) for row in entry.rows)
