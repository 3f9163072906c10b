"""Rows of a matrix launched one after the other, unattended; what each came to is kept at once."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from gb10.core.journal import Journal
from gb10.image.context import Context
from gb10.serving.trial.axes import MatrixRow
from gb10.serving.trial.kept_runs import MakeLauncher, kept, launches_of
from gb10.serving.trial.launch_line import LaunchLine, Result
from gb10.serving.trial.measuring import Measure

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
                known[row.name] = kept(ctx, partial(make, row), measure, journal, name=row.name, number=number)
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
