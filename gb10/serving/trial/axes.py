"""A matrix file: axes of settings, whose product are the rows that are launched and measured. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Annotated, Final

from pydantic import ConfigDict, Field, StringConstraints, model_validator

from gb10.core.document import parse_document
from gb10.core.fields import Model
from gb10.errors import UsageError

MOST: Final = 500
"""Rows of a matrix."""
ARGS: Final = "args"
"""More arguments of the server: those of all axes stand one after the other."""
VARIANT: Final = "variant"
DRAFTS: Final = "mtp"
"""How our recipes name the variant that drafts, alone or behind another one's name: ``ep4-mtp``."""
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


def drafting(axes: Mapping[str, Axis], variants: Collection[str], chosen: str | None) -> dict[str, Axis]:
    """The axes with the recipe's own variant where a value drafts by the engine's usual arguments.

    A model may need more: those with Gated DeltaNet layers want settings of Mamba, each release other ones. Where the
    ``chosen`` variant drafts there is no such value; another one has its like that drafts, if the recipe has one. Pure.
    """
    if chosen and chosen.split("-")[-1] == DRAFTS:
        kept = {name: {key: one for key, one in axis.items() if key not in DRAFTING} for name, axis in axes.items()}
        return {name: axis for name, axis in kept.items() if axis}
    own = f"{chosen}-{DRAFTS}" if chosen else DRAFTS
    if own not in variants:
        return dict(axes)
    return {
        name: {key: {VARIANT: own} if key in DRAFTING else one for key, one in axis.items()}
        for name, axis in axes.items()
    }


def rows_of(matrix: MatrixFile) -> tuple[MatrixRow, ...]:
    """All rows in order, the last axis fastest. Raises UsageError when two axes set the same in one row."""
    names = list(matrix.axes)
    return tuple(_row(matrix, dict(zip(names, chosen, strict=True))) for chosen in product(*matrix.axes.values()))


def _row(matrix: MatrixFile, values: Mapping[str, str]) -> MatrixRow:
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
