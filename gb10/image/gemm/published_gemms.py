"""What others published for GEMMs on a GB10: recipes/bench/gemm.yaml."""

from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import ConfigDict, Field

from gb10.core.data_root import ROOT
from gb10.core.document import parse_document
from gb10.core.fields import Model

FILE: Final = "recipes/bench/gemm.yaml"
UNNAMED: Final = "format not named"


class PublishedGemm(Model):
    """One figure; ``shape`` is a shape that we time, too."""

    model_config = ConfigDict(alias_generator=None)
    tflops: Annotated[int | float, Field(gt=0)]
    format: str | None = None
    shape: str | None = None
    what: str


class PublishedGemms(Model):
    """All figures of one source."""

    model_config = ConfigDict(alias_generator=None)
    source: str
    title: str
    figures: tuple[PublishedGemm, ...]

    def beside(self, line: Mapping[str, Any]) -> float | None:
        """The figure of the shape and the format of a time; on another GPU it would say nothing."""
        if line["of_peak"] is None:
            return None
        same = (one.tflops for one in self.figures if one.shape == line["shape"] and _is_of(line["kernel"], one.format))
        return next(same, None)


def _is_of(kernel: str, form: str | None) -> bool:
    return form is not None and kernel.startswith(f"{form}_")


def published_gemms() -> PublishedGemms:
    """The figures of the checkout."""
    text = (ROOT / FILE).read_text(encoding="utf-8")
    return parse_document(text, PublishedGemms, where=FILE, what="list of published GEMMs")
