"""Every figure that others published about GB10, and whether the recipes keep it.

    python3 -m bootstrap scripts/published_rows.py [FILE]

FILE is tests/unit/data/published_rows.yaml by default: figures with their sources, written from these. Each row is
`present`, `absent` (with what was not found) or `left out` (with the reason). Exit 1 when one is absent.
"""

import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Final, Literal

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from pydantic import ConfigDict, Field, StringConstraints, model_validator  # noqa: E402 - the checkout goes on the path first

from gb10.core.document import parse_document  # noqa: E402
from gb10.core.fields import Model  # noqa: E402
from gb10.image.gemm.gemm_benchmarks import published_gemms  # noqa: E402
from gb10.image.request.recipe_mods import load_file  # noqa: E402
from gb10.models.lint.served import lint_case  # noqa: E402
from gb10.models.load.model_recipe import (  # noqa: E402
    Measurement,
    ModelRecipe,
    own_section,
)
from gb10.models.registries.recipe_file import find_recipe  # noqa: E402
from gb10.serving.benchmark.published import published  # noqa: E402

FILE: Final = ROOT / "tests/unit/data/published_rows.yaml"
ROUNDED: Final = 0.005
"""How far a kept figure may be from a published one: sources round the figures of their own logs."""
Texts = tuple[str, ...]
Number = Annotated[str, StringConstraints(pattern=r"^[1-9]\d*$")]
Figures = Annotated[dict[Number, float], Field(min_length=1)]
"""By a number: keys of a document are text."""


class _Part(Model):
    model_config = ConfigDict(alias_generator=None)


class Measured(_Part):
    """Rows of a recipe, in tokens/s: ``at`` by requests at once, or ``lengths`` by tokens of an answer."""

    recipe: str
    variant: str | None = None
    engine: str | None = None
    nodes: int
    at: Figures | None = None
    lengths: Figures | None = None
    first_token_s: Figures | None = None
    note: str = ""


class Elsewhere(_Part):
    """Rows of a model that no recipe here serves (recipes/bench/published.yaml)."""

    model: str
    at: Figures
    note: str = ""


class Failed(_Part):
    """One row of a recipe whose `failure` has all these words."""

    recipe: str
    variant: str | None = None
    holds: Texts


class Gemm(_Part):
    """One figure of recipes/bench/gemm.yaml."""

    tflops: float
    format: str | None = None
    holds: Texts


class AsVariant(_Part):
    """A variant whose command has these options, lacks those of ``absent``, and sets these variables."""

    recipe: str
    name: str
    options: Mapping[str, str] = Field(default_factory=dict)
    absent: Texts = ()
    env: Mapping[str, str] = Field(default_factory=dict)


class Words(_Part):
    """A file of the checkout with all these words."""

    file: str
    holds: Texts


class Row(_Part):
    """What a source says, and where it must be found; or why nothing of it is kept."""

    what: str
    measured: Measured | None = None
    published: Elsewhere | None = None
    failure: Failed | None = None
    gemm: Gemm | None = None
    variants: tuple[AsVariant, ...] = ()
    words: Words | None = None
    left_out: str = ""

    @model_validator(mode="after")
    def _says_one_thing(self) -> "Row":
        checks = (self.measured, self.published, self.failure, self.gemm, self.variants, self.words)
        if any(checks) == bool(self.left_out):
            raise ValueError(f"'{self.what}' has either a check or `left_out`")
        return self


class Group(_Part):
    """The rows of one source."""

    source: str
    rows: tuple[Row, ...]


class Collected(_Part):
    """The file."""

    groups: tuple[Group, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """Of one row; ``why`` is what was not found, or the reason of one that is left out."""

    what: str
    state: Literal["present", "absent", "left out"]
    why: str = ""


def verdict(row: Row) -> Verdict:
    """The verdict of a row."""
    if row.left_out:
        return Verdict(what=row.what, state="left out", why=row.left_out)
    missing = "; ".join(_missing(row))
    return Verdict(what=row.what, state="absent" if missing else "present", why=missing)


def _missing(row: Row) -> Iterator[str]:
    if row.measured is not None:
        yield from _measured(row.measured)
    if row.published is not None:
        kept = [one.row for one in published(row.published.model) if one.model == row.published.model]
        yield from _figures(kept, row.published.model, row.published.at, {}, row.published.note)
    if row.failure is not None:
        wanted = row.failure
        rows = [one.failure or "" for one in _rows(wanted.recipe) if one.variant == wanted.variant]
        if not any(all(word in failure for word in wanted.holds) for failure in rows):
            yield f"{wanted.recipe}: no failure with {', '.join(wanted.holds)}"
    if row.gemm is not None:
        gemm = row.gemm
        kept_gemms = [
            one for one in published_gemms().figures if (one.tflops, one.format) == (gemm.tflops, gemm.format)
        ]
        if not any(all(word in one.what for word in gemm.holds) for one in kept_gemms):
            yield f"recipes/bench/gemm.yaml: no {gemm.tflops:g} TFLOPS of {', '.join(gemm.holds)}"
    for variant in row.variants:
        yield from _variant(variant)
    if row.words is not None:
        text = " ".join((ROOT / row.words.file).read_text(encoding="utf-8").split())
        yield from (f"{row.words.file}: no '{word}'" for word in row.words.holds if word not in text)


def _measured(wanted: Measured) -> Iterator[str]:
    section = own_section(_recipe(wanted.recipe))
    engine = wanted.engine or section.engine
    rows = [
        one
        for one in section.measured
        if (one.variant, one.nodes, one.engine) == (wanted.variant, wanted.nodes, engine)
    ]
    name = f"{wanted.recipe} {wanted.variant or ''}".strip()
    yield from _figures(rows, name, wanted.at or {}, wanted.first_token_s or {}, wanted.note)
    for length, figure in (wanted.lengths or {}).items():
        near = [one for one in rows if str(one.output_tokens) == length and _close(one.tokens_per_s, figure)]
        first = (wanted.first_token_s or {}).get("1")
        if not any(wanted.note in (one.note or "") and first in (None, one.first_token_s) for one in near):
            yield f"{name}: no {figure:g} tokens/s with answers of {length}"


def _figures(
    rows: Iterable[Measurement], name: str, at: Mapping[str, float], first: Mapping[str, float], note: str
) -> Iterator[str]:
    kept = [one for one in rows if note in (one.note or "")]
    for requests, figure in at.items():
        found = [one for one in kept if str(one.concurrency) == requests and _close(one.tokens_per_s, figure)]
        if not found:
            yield f"{name}: no {figure:g} tokens/s with {requests} at once"
        elif requests in first and not any(_close(one.first_token_s, first[requests]) for one in found):
            yield f"{name}: no first token after {first[requests]:g} s with {requests} at once"


def _variant(wanted: AsVariant) -> Iterator[str]:
    """The variant's command is that of `recipe lint`: what a launch would have, by long names."""
    recipe = _recipe(wanted.recipe)
    variants, name = own_section(recipe).variants, f"{wanted.recipe} {wanted.name}"
    if wanted.name not in variants:
        yield f"{name}: no such variant"
        return
    options = lint_case(recipe, {}, wanted.name).options
    for option, value in wanted.options.items():
        found = options.get(option.replace("_", "-"), ("absent",))[-1]  # names are with dashes there
        if found != value:
            yield f"{name}: {option} is {found}, not {value}"
    yield from (f"{name}: has {option}" for option in wanted.absent if option in options)
    given = dict(variants[wanted.name].overrides)
    for variable, value in wanted.env.items():
        if given.get(f"env.{variable}") != value:
            yield f"{name}: does not set {variable}={value}"


def _close(kept: float | None, figure: float) -> bool:
    return kept is not None and math.isclose(kept, figure, rel_tol=ROUNDED)


@cache
def _recipe(name: str) -> ModelRecipe:
    return load_file(find_recipe(name))


def _rows(name: str) -> tuple[Measurement, ...]:
    return own_section(_recipe(name)).measured


def collected(path: Path = FILE) -> Collected:
    """The figures of a file. Raises UsageError."""
    return parse_document(
        path.read_text(encoding="utf-8"), Collected, where=str(path), what="list of published figures"
    )


def main(path: Path = FILE) -> int:
    """Print each row with its verdict."""
    counts = {"present": 0, "absent": 0, "left out": 0}
    for group in collected(path).groups:
        print(group.source)
        for found in map(verdict, group.rows):
            counts[found.state] += 1
            print(f"  {found.state:8}  {found.what}" + (f": {found.why}" if found.why else ""))
    print(", ".join(f"{count} {state}" for state, count in counts.items()))
    return 1 if counts["absent"] else 0


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:2])))
