"""``recipes/moe/engines.toml``: where each engine keeps the look-up of each family of tuned files. Data, checked."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from packaging.specifiers import SpecifierSet
from packaging.version import Version
from pydantic import Field, ValidationError

from gb10.core.fields import Model, Releases
from gb10.errors import LockStaleError, UsageError

TABLE = "recipes/moe/engines.toml"
Family = Literal["moe", "dense", "mamba", "lora", "helion"]
TITLES: Mapping[Family, str] = {
    "moe": "fused MoE",
    "dense": "dense block FP8",
    "mamba": "Mamba state update",
    "lora": "SGLang LoRA",
    "helion": "Helion",
}


class Home(Model):
    """A family's module, the folder of its files beside it, and the variable that names another folder.

    ``kernels`` are the modules that may have the function ``kernel``, which gets the rows.
    """

    modules: tuple[str, ...] = Field(min_length=1)
    folder: str
    versioned: bool = False
    """The folder has one folder for each version of Triton."""
    variable: str | None = None
    kernels: tuple[str, ...] = ()
    kernel: str = ""


class EngineTable(Model):
    """One engine."""

    also: tuple[str, ...]
    triton: dict[Releases, str] = Field(default_factory=dict)
    families: dict[Family, Home]

    def triton_of(self, version: Version) -> str | None:
        """The Triton of a release; None when nobody wrote it down."""
        found = (triton for releases, triton in self.triton.items() if version in SpecifierSet(releases))
        return next(found, None)


class Tables(Model):
    """Every engine."""

    vllm: EngineTable
    sglang: EngineTable


def read_table(root: Path, engine: str) -> EngineTable:
    """An engine's table; raises UsageError for another engine, LockStaleError for a table that is not valid."""
    try:
        tables = Tables.model_validate(tomllib.loads((root / TABLE).read_text(encoding="utf-8")), strict=False)
    except (ValidationError, ValueError) as error:
        raise LockStaleError(f"{TABLE} is not valid", where=str(error)[:400]) from error
    if engine not in Tables.model_fields:
        raise UsageError(f"moe does not know the engine {engine!r}", hint=f"it knows {', '.join(Tables.model_fields)}")
    table: EngineTable = getattr(tables, engine)
    return table
