"""A matrix as a page: rows as bars, how each came out and why, what others published. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from gb10.serving.chart.bars import Bar, bars
from gb10.serving.trial.launch_line import Result
from gb10.serving.trial.matrix_run import Done, counts
from gb10.serving.trial.published import Published
from gb10.serving.trial.published_section import published_section
from gb10.serving.trial.result_page import Page, Section

BEST = "one launch each: rows that differ by less than 8 % may be equal; compare the best two by bench compare"


def matrix_page(done: Sequence[Done], head: Mapping[str, Any], published: Sequence[Published], made: str) -> Page:
    """The page of a matrix."""
    found = counts(done)
    served = next((one.line.serve for one in done if one.line and one.line.serve), None)
    what = head.get("recipe") or (served.model if served else None) or "a command"
    return Page(
        title=f"{what}: {len(done)} rows",
        verdict=", ".join(f"{count} {name}" for name, count in found.items() if count),
        kind="good" if found["STABLE"] == len(done) else "bad" if not found["STABLE"] else "unsure",
        lead=(BEST,) if found["STABLE"] > 1 else (),
        sections=(
            Section(title="Rows", head=head_of(done), rows=table_rows(done), charts=_charts(done)),
            Section(title="What speaks against the figures", lines=_doubts(done) or ("nothing was found",)),
            *published_section(published),
        ),
        made=made,
    )


def concurrencies(done: Sequence[Done]) -> list[int]:
    """The levels that any row has."""
    return sorted({level.concurrency for one in done if one.line and one.line.serve for level in one.line.serve.levels})


def head_of(done: Sequence[Done]) -> tuple[str, ...]:
    """The names of the columns."""
    axes = tuple(done[0].row.values) if done else ()
    return (*axes, "result", *(f"tok/s at {level}" for level in concurrencies(done)), "answers", "why")


def table_rows(done: Sequence[Done]) -> tuple[tuple[str, ...], ...]:
    """The rows, the fastest at most requests first, then those without a figure."""
    levels = concurrencies(done)
    ordered = sorted(done, key=lambda one: -(figure(one, levels[-1]) or 0.0)) if levels else list(done)
    return tuple(
        (
            *one.row.values.values(),
            str(one.line.result) if one.line else "left out",
            *(f"{value:.2f}" if (value := figure(one, level)) else "" for level in levels),
            _answers(one),
            why(one),
        )
        for one in ordered
    )


def figure(one: Done, concurrency: int) -> float | None:
    """Tokens a second of a stable row."""
    if one.line is None or one.line.serve is None or one.line.result is not Result.STABLE:
        return None
    level = one.line.serve.level(concurrency)
    return level.figure("tok_s") if level else None


def why(one: Done) -> str:
    """Why a row has no figure: in a sentence, with the line of the server's log."""
    if one.line is None:
        return one.row.left_out
    return "; ".join(filter(None, (one.line.why, one.line.cause)))


def _answers(one: Done) -> str:
    quality = one.line.quality if one.line else None
    return f"{quality.points} of {quality.of}" if quality else ""


def _charts(done: Sequence[Done]) -> tuple[str, ...]:
    return tuple(
        bars(
            f"tok/s at {level}",
            [
                Bar(
                    name=one.row.name,
                    result=str(one.line.result) if one.line else "left out",
                    value=figure(one, level),
                    said=one.row.name,
                )
                for one in done
            ],
        )
        for level in concurrencies(done)
    )


def _doubts(done: Sequence[Done]) -> tuple[str, ...]:
    said = [(doubt, one.row.name) for one in done if one.line and one.line.serve for doubt in one.line.serve.doubts]
    return tuple(f"{name}: {doubt}" for doubt, name in said[:100])
