"""Sizes of our recipes' models: excerpts of their config.json, or published figures. ``recipes/models/configs``."""

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import ConfigDict, Field, StringConstraints, model_validator

from gb10.core.fields import Model as Record
from gb10.core.installation import ROOT
from gb10.errors import UsageError
from gb10.models.memory.cache import Cache
from gb10.models.memory.figures import GIB
from gb10.models.memory.model import Model, model_of

FOLDER: Final = ROOT / "recipes/models/configs"
MIB: Final = 1 << 20
Number = Annotated[float | int, Field(gt=0, le=1 << 40)]
Text = Annotated[str, StringConstraints(min_length=10, max_length=400)]


class _Part(Record):
    """Keys have underscores, as everywhere beside model recipes."""

    model_config = ConfigDict(alias_generator=None)


class Published(_Part):
    """Sizes that are not computed: of all weights, and on each node bytes of a token and MiB of a state.

    ``table_gib`` and ``repeated_gib`` are parts of ``weights_gib``: a table of embeddings that an engine can leave in
    a file, and what each rank keeps whole.
    """

    weights_gib: Number | None = None
    draft_gib: Number | None = None
    table_gib: Number | None = None
    repeated_gib: Number | None = None
    token_bytes: Number
    state_mib: Number | None = None


class KnownModel(_Part):
    """One file: a model, where its figures are from, an excerpt of its config, and published sizes in their place."""

    model: str
    source: Annotated[tuple[Text, ...], Field(min_length=1, max_length=8)]
    config: dict[str, Any] | None = None
    published: Published | None = None

    @model_validator(mode="after")
    def _has_weights(self) -> "KnownModel":
        if (self.config is None) == (self.published is None or self.published.weights_gib is None):
            raise ValueError("a file has exactly one of config, published.weights_gib")
        return self


def known_names() -> list[str]:
    """The models that the checkout has sizes of."""
    return sorted(path.stem.replace("--", "/", 1) for path in FOLDER.glob("*.json"))


@cache
def known_model(name: str) -> Model | None:
    """The sizes of a model by its name on the Hub; None when the checkout has none. Raises UsageError."""
    return read_known(FOLDER / f"{name.replace('/', '--', 1)}.json") if name in known_names() else None


@cache
def known_config(name: str) -> Mapping[str, Any]:
    """The excerpt of a model's config.json by its name on the Hub; empty when the checkout has none."""
    return _read(FOLDER / f"{name.replace('/', '--', 1)}.json").config or {} if name in known_names() else {}


def read_known(path: Path) -> Model:
    """The model of a file of sizes; raises UsageError for one that is not valid."""
    found = _read(path)
    source = f"the config in {path.name}"
    computed = model_of(found.config, found.model, source) if found.config is not None else Model(name=found.model)
    return published(computed, found.published, "; ".join(found.source))


def _read(path: Path) -> KnownModel:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return KnownModel.model_validate({**content, "source": tuple(content["source"])})
    except (ValueError, TypeError, KeyError) as error:
        raise UsageError(f"{path.name} is not a file of a model's sizes", where=str(error)[:400]) from error


def published(model: Model, sizes: Published | None, source: str) -> Model:
    """A model with published sizes in place of computed ones."""
    if sizes is None:
        return model
    cache = Cache(token=float(sizes.token_bytes), state=(sizes.state_mib or 0) * MIB)
    model = replace(model, cache=cache, cache_source=source)
    if sizes.weights_gib is None:
        return model
    whole, drafts = round(sizes.weights_gib * GIB), round((sizes.draft_gib or 0) * GIB)
    return replace(
        model,
        whole=whole,
        whole_drafts=drafts,
        whole_repeated=round((sizes.repeated_gib or 0) * GIB),
        table=round((sizes.table_gib or 0) * GIB),
        known="published",
        source=source,
    )
