"""Figures that no config has: of the machine, the engines, and the time before a server answers. From ``recipes/``."""

from functools import cache
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints, model_validator

from gb10.core.document import parse_document
from gb10.core.fields import Model
from gb10.core.installation import ROOT

FILE: Final = "recipes/memory/figures.yaml"
GIB: Final = 1 << 30
Known = Literal["computed", "measured", "published", "assumed"]
"""``computed`` from a config or a file's headers, ``measured`` on a GB10, ``published`` by somebody, or ``assumed``."""
NAMES: Final = (
    *("total", "system", "system_least", "reserve", "processes", "torch_reserve", "activation_bytes"),
    *("activation_delta", "logit_bytes"),
    *("vllm_share", "vllm_encoder_mib", "vllm_drafts", "vllm_network", "vllm_indexer_mib"),
    *("vllm_graph_mib", "vllm_graph_dense_mib", "vllm_graph_mamba_mib", "vllm_graph_sum_mib", "vllm_loader_left"),
    *("sglang_graphs", "sglang_load", "sglang_mamba_share", "sglang_window_share"),
    *("first_start", "first_start_other", "load_instanttensor", "load_file", "load_streamer", "load_repack"),
    "compile_job",
)


class Figure(Model):
    """One figure: ``gib``, or ``number`` in the unit that its comment names."""

    gib: Annotated[float | int, Field(ge=0, le=1024)] | None = None
    number: Annotated[float | int, Field(gt=0, le=1e6)] | None = None
    known: Known
    source: Annotated[str, StringConstraints(min_length=10, max_length=400)]

    @model_validator(mode="after")
    def _one_value(self) -> "Figure":
        if (self.gib is None) == (self.number is None):
            raise ValueError("a figure has exactly one of gib, number")
        return self

    @property
    def size(self) -> int:
        """Bytes of a figure in GiB."""
        return round((self.gib or 0) * GIB)

    @property
    def value(self) -> float:
        """The number of a figure that is not in GiB."""
        return float(self.number or 0)


class FigureFile(Model):
    """``recipes/memory/figures.yaml``."""

    figures: dict[str, Figure]

    @model_validator(mode="after")
    def _all_names(self) -> "FigureFile":
        wrong = set(self.figures) ^ set(NAMES)
        if wrong:
            raise ValueError(f"missing or unknown figures: {', '.join(sorted(wrong))}")
        return self


@cache
def load_figures(path: Path = ROOT / FILE) -> dict[str, Figure]:
    """The figures of the checkout; raises UsageError for a file that is not valid."""
    return parse_document(path.read_text(encoding="utf-8"), FigureFile, where=FILE, what="list of figures").figures
