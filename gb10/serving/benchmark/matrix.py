"""Rows of a matrix launched one after the other, unattended; what each came to is kept at once."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from math import prod
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import ConfigDict, Field, StringConstraints, model_validator

from gb10.core.document import parse_document
from gb10.core.fields import Model
from gb10.core.files import read_plain_file
from gb10.core.installation import ROOT
from gb10.core.journal import Journal
from gb10.errors import UsageError
from gb10.image.context import Context
from gb10.image.request.recipe_mods import added_options, load_file, mended_patches, mods_of
from gb10.models.issue import errors_of
from gb10.models.lint.linting import lint
from gb10.models.lint.rule import load_rules
from gb10.models.load.known_keys import OURS
from gb10.models.load.model_recipe import ModelRecipe, Variant, own_section
from gb10.models.registries.recipe_file import find_recipe
from gb10.serving.benchmark.launch_journal import launches_of, run_and_record
from gb10.serving.benchmark.launch_line import LaunchLine, Result
from gb10.serving.benchmark.launcher import ARGS, ENV, IMAGE, VARIANT, MakeLauncher, Starting
from gb10.serving.benchmark.measuring import Measure

MOST: Final = 500
"""Rows of a matrix."""
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
        if (
            missing := next(
                (key for key in settings if key not in (ARGS, VARIANT, IMAGE, *parameters) and not key.startswith(ENV)),
                None,
            )
        )
    }


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


OWN: Final = ROOT / "recipes/bench/axes"
LARGEST: Final = 1 << 20


def refusals(starting: Starting, rows: Sequence[MatrixRow]) -> dict[str, str]:
    """Why lint refuses a row, by its name; none for servers that no recipe starts. Raises UsageError."""
    if starting.recipe is None:
        return {}
    file, rules = find_recipe(starting.recipe), load_rules()
    recipe = load_file(file)
    mods = mods_of(recipe, file)
    judge = partial(lint, rules=rules, added=added_options(mods), mended=mended_patches(mods))
    found = {row.name: errors_of(judge(as_changed(recipe, starting, row.settings)).issues) for row in rows}
    return {name: f"lint refuses it: {issues[0].code}: {issues[0].text}" for name, issues in found.items() if issues}


def as_changed(recipe: ModelRecipe, starting: Starting, settings: Mapping[str, str]) -> ModelRecipe:
    """The recipe with a row's settings in it. Pure."""
    variants = own_section(recipe).variants
    name = settings.get(VARIANT) or starting.request.render.variant or ""
    chosen = variants[name].overrides if name in variants else ()
    own = {key: value for key, value in settings.items() if key not in (ARGS, IMAGE, VARIANT)}
    changes = {**dict(chosen), **dict(starting.request.render.overrides), **own}
    image = settings.get(IMAGE) or starting.request.image or recipe.container
    command = f"{(recipe.command or '').rstrip()} {settings.get(ARGS, '')}".rstrip()
    env = {key.removeprefix(ENV): value for key, value in changes.items() if key.startswith(ENV)}
    section = recipe.values.get(OURS)
    defaults = {key: value for key, value in changes.items() if not key.startswith(ENV)}
    values = {
        **recipe.values,
        "defaults": {**recipe.defaults, **defaults},
        "env": {**recipe.env, **env},
        OURS: {**(section if isinstance(section, dict) else {}), "variants": {}},  # no row runs those that it names
        "command": command,
        "container": image,
    }
    return replace(recipe, values=values)


def matrix_of(ctx: Context, what: str, variant: str | None) -> MatrixFile:
    """The matrix of a file, or the one of a recipe's engine, with its own way to draft. Raises UsageError."""
    path = Path(what)
    if path.is_file():
        text = read_plain_file(path, LARGEST).decode("utf-8", "replace")
        if any(line.startswith("axes:") for line in text.splitlines()):
            return read_matrix(text, what)
    recipe = load_file(find_recipe(what))
    engine = own_section(recipe).engine or recipe.text("runtime") or "unknown"
    own = OWN / f"{engine}.yaml"
    if not own.is_file():
        names = ", ".join(sorted(one.stem for one in OWN.glob("*.yaml")))
        raise UsageError(
            f"no axes for the engine {engine}", hint=f"there are some for {names}; or write a file of axes"
        )
    matrix_file = read_matrix(own.read_text(encoding="utf-8"), str(own.relative_to(ROOT)))
    variants = own_section(recipe).variants
    if variant in variants and drafts(variants[variant]):
        ctx.reporter.say(f"every row drafts, by the variant {variant}: no axis for that")
    axes = drafting(matrix_file.axes, variants, variant)
    lost = without_effect(axes, recipe.defaults)
    for (name, value), parameter in lost.items():
        ctx.reporter.say(f"no rows with {name}={value}: {recipe.name} has no parameter '{parameter}'")
    kept = {name: {key: one for key, one in axis.items() if (name, key) not in lost} for name, axis in axes.items()}
    return matrix_file.model_copy(update={"recipe": what, "axes": {name: axis for name, axis in kept.items() if axis}})


def judged_rows(ctx: Context, starting: Starting, rows: Sequence[MatrixRow], *, skip: bool) -> tuple[MatrixRow, ...]:
    """The rows; those that lint refuses are said, and left out when that is asked for."""
    refused = refusals(starting, rows)
    for why in dict.fromkeys(refused.values()):
        names = [name for name, one in refused.items() if one == why]
        ctx.reporter.say(f"{len(names)} of {len(rows)} rows, {names[0]}: {why}")
    return tuple(replace(row, left_out=row.left_out or (refused.get(row.name, "") if skip else "")) for row in rows)
