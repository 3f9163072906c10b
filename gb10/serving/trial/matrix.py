"""Rows of a matrix launched one after the other, unattended; what each came to is kept at once."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import prod
from typing import Annotated, Any, Final

from pydantic import ConfigDict, Field, StringConstraints, model_validator

from gb10.core.document import parse_document
from gb10.core.fields import Model
from gb10.core.journal import Journal
from gb10.errors import UsageError
from gb10.image.context import Context
from gb10.models.load.own_section import Variant
from gb10.serving.trial.launch_journal import MakeLauncher, launches_of, run_and_record
from gb10.serving.trial.launch_line import LaunchLine, Result
from gb10.serving.trial.launcher import ENV
from gb10.serving.trial.measuring import Measure

MOST: Final = 500
"""Rows of a matrix."""
ARGS: Final = "args"
"""More arguments of the server: those of all axes stand one after the other."""
VARIANT: Final = "variant"
IMAGE: Final = "image"
DRAFTS: Final = ("mtp", "nextn")
"""How our recipes name the variant that drafts, alone or behind another one's name: ``ep4-mtp``."""
SPECULATIVE: Final = "speculative"
"""The parameter of our recipes that a variant with drafts sets."""
DRAFTING: Final = ("mtp3", "nextn3")
"""Values of our own axes that draft."""
Word = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.+-]{1,60}$")]
Key = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_.]{0,80}$")]
Value = Annotated[str, StringConstraints(max_length=2000)] | int | float | bool
Settings = Annotated[dict[Key, Value], Field(max_length=50)]
Axis = Annotated[dict[Word, Settings], Field(min_length=1, max_length=50)]


class LeftOut(Model):
    """Rows that are not run, by some of their values, and why."""

    model_config = ConfigDict(alias_generator=None)
    when: Annotated[dict[Word, Word], Field(min_length=1)]
    why: Annotated[str, StringConstraints(min_length=1, max_length=500)]


class MatrixFile(Model):
    """``recipe`` or ``launch`` starts a row; both may also come from the command line."""

    model_config = ConfigDict(alias_generator=None)
    recipe: str | None = None
    launch: str | None = None
    axes: Annotated[dict[Word, Axis], Field(min_length=1, max_length=12)]
    """By the name of an axis: its values by name, each with the settings that it stands for."""
    left_out: Annotated[tuple[LeftOut, ...], Field(max_length=100)] = ()

    @model_validator(mode="after")
    def _check(self) -> "MatrixFile":
        if self.recipe and self.launch:
            raise ValueError("`recipe` and `launch` are two ways to start a server")
        if prod(len(axis) for axis in self.axes.values()) > MOST:
            raise ValueError(f"the axes make more than {MOST} rows")
        for one in self.left_out:
            for name, value in one.when.items():
                if value not in self.axes.get(name, {}):
                    raise ValueError(f"`left_out` names {name}={value}, which is on no axis")
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixRow:
    """One row: the value of each axis, and the settings of all of them."""

    values: Mapping[str, str]
    settings: Mapping[str, str]
    left_out: str = ""
    """Why it is not run; empty for a row that is."""

    @property
    def name(self) -> str:
        """``moe=triton graphs=on``."""
        return " ".join(f"{axis}={value}" for axis, value in self.values.items())


def read_matrix(text: str, where: str) -> MatrixFile:
    """The matrix of a file. Raises UsageError."""
    return parse_document(text, MatrixFile, where=where, what="matrix")


def drafts(variant: Variant) -> bool:
    """Whether a variant of ours drafts."""
    return SPECULATIVE in variant.set


def drafting(axes: Mapping[str, Axis], variants: Mapping[str, Variant], chosen: str | None) -> dict[str, Axis]:
    """The axes with the recipe's own variant where a value drafts by the engine's usual arguments.

    A model may need more: those with Gated DeltaNet layers want settings of Mamba, each release other ones. Where the
    ``chosen`` variant drafts there is no such axis; another one has its like that drafts, if the recipe has one. Pure.
    """
    if chosen is not None and chosen in variants and drafts(variants[chosen]):
        return {name: axis for name, axis in axes.items() if not axis.keys() & set(DRAFTING)}
    named = (f"{chosen}-{word}" if chosen else word for word in DRAFTS)
    own = next((name for name in named if name in variants), None)
    if own is None:
        return dict(axes)
    return {
        name: {key: {VARIANT: own} if key in DRAFTING else one for key, one in axis.items()}
        for name, axis in axes.items()
    }


def without_effect(axes: Mapping[str, Axis], parameters: Collection[str]) -> dict[tuple[str, str], str]:
    """By axis and value: a parameter that such a row sets, and that the recipe does not have. Pure."""
    return {
        (name, value): missing
        for name, axis in axes.items()
        for value, settings in axis.items()
        if (missing := next((key for key in settings if _is_parameter(key) and key not in parameters), None))
    }


def _is_parameter(key: str) -> bool:
    return key not in (ARGS, VARIANT, IMAGE) and not key.startswith(ENV)


def rows_of(matrix: MatrixFile) -> tuple[MatrixRow, ...]:
    """All rows in order, the last axis fastest. Raises UsageError when two axes set the same in one row."""
    names = list(matrix.axes)
    return tuple(
        _matrix_row(matrix, dict(zip(names, chosen, strict=True))) for chosen in product(*matrix.axes.values())
    )


def _matrix_row(matrix: MatrixFile, values: Mapping[str, str]) -> MatrixRow:
    settings: dict[str, str] = {}
    for axis, value in values.items():
        for key, one in matrix.axes[axis][value].items():
            text = str(one).lower() if isinstance(one, bool) else str(one)
            if key == ARGS and key in settings:
                settings[key] = f"{settings[key]} {text}".strip()
            elif key in settings:
                raise UsageError(
                    f"two axes set {key!r}", where=f"{axis}={value}", hint="an axis sets what no other does"
                )
            else:
                settings[key] = text
    reason = next((one.why for one in matrix.left_out if one.when.items() <= values.items()), "")
    return MatrixRow(values=values, settings=settings, left_out=reason)


SCHEMA: Final = "gb10/matrix/v1"
MakeRow = Callable[[MatrixRow], MakeLauncher]


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A row with what it came to; None for one that was left out."""

    row: MatrixRow
    line: LaunchLine | None


def run_rows(
    ctx: Context, rows: Sequence[MatrixRow], make: MakeRow, measure: Measure, journal: Journal, *, retry: bool
) -> tuple[Done, ...]:
    """Run the rows that the journal lacks; with ``retry`` those that were not stable, too. Raises FetchError."""
    known = {one.name: one for one in launches_of(journal)}
    done = {name for name, one in known.items() if not retry or one.result is Result.STABLE}
    wanted = {row.name for row in rows if not row.left_out}
    if known:
        ctx.reporter.say(f"{len(done & wanted)} of {len(wanted)} rows were measured before")
    for number, row in enumerate(rows):
        if not row.left_out and row.name not in done:
            with ctx.reporter.task(f"row {number + 1} of {len(rows)}: {row.name}"):
                known[row.name] = run_and_record(
                    ctx, partial(make, row), measure, journal, name=row.name, number=number
                )
    return tuple(Done(row=row, line=None if row.left_out else known.get(row.name)) for row in rows)


def document(done: Sequence[Done], head: Mapping[str, Any]) -> dict[str, Any]:
    """The matrix as JSON: docs/schemas/matrix-v1.schema.json."""
    return {"schema": SCHEMA, **head, "counts": counts(done), "rows": [_row(one) for one in done]}


def counts(done: Sequence[Done]) -> dict[str, int]:
    """How many rows came out how."""
    results = [str(one.line.result) if one.line else "left out" for one in done]
    return {name: results.count(name) for name in (*map(str, Result), "left out")}


def _row(one: Done) -> dict[str, Any]:
    line = one.line
    served = line.serve if line else None
    return {
        "name": one.row.name,
        "values": dict(one.row.values),
        "settings": dict(one.row.settings),
        "left_out": one.row.left_out,
        "result": str(line.result) if line else None,
        "why": line.why if line else "",
        "cause": line.cause if line else "",
        "seconds": line.seconds if line else None,
        "facts": line.facts if line else {},
        "quality": line.quality.model_dump(mode="json") if line and line.quality else None,
        "doubts": served.doubts if served else [],
        "levels": [
            {
                "concurrency": level.concurrency,
                "verdict": str(level.verdict),
                "canaries": {"right": level.right[0], "count": level.right[1]},
                **{name: level.figure(name) for name in ("tok_s", "steps_s", "tokens_per_step", "first_token_s")},
            }
            for level in (served.levels if served else [])
        ],
    }
