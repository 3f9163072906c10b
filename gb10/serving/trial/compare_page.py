"""A comparison as a page: the verdict, every figure with its interval, the launches, the conditions. Pure."""

from collections.abc import Iterator

from gb10.serving.chart.sides import effects, launches
from gb10.serving.stats.comparison import percent
from gb10.serving.trial.compared import Compared, Row
from gb10.serving.trial.compared_figures import SPEED
from gb10.serving.trial.result_page import Page, Section

KINDS = {"faster": "good", "slower": "bad", "garbage": "bad", "worse answers": "bad"}
HEAD = ("at once", "figure", "A", "B", "B against A", "95 %", "A/A", "verdict")


def compare_page(found: Compared, made: str) -> Page:
    """The page of a comparison."""
    a, b = found.names
    first = next((one.serve for one in found.launches if one.serve), None)
    model = f"{first.model}: " if first else ""
    return Page(
        title=f"{model}B against A",
        verdict=found.verdict,
        kind=KINDS.get(found.verdict, "unsure"),
        lead=(f"A: {a or 'as the recipe is'}", f"B: {b or 'as the recipe is'}", *filter(None, [found.garbage])),
        sections=tuple(_sections(found)),
        made=made,
    )


def _sections(found: Compared) -> Iterator[Section]:
    rows = [row for row in found.rows if row.figure.name in SPEED]
    shown = [{**_shares(row), "label": f"{row.figure.title} at {row.concurrency}", "word": row.word} for row in rows]
    charts = [effects("B against A", shown, found.margin)] if shown else []
    charts += [launches(f"{row.figure.title} at {row.concurrency}", row.points) for row in rows]
    yield Section(title="Figures", head=HEAD, rows=tuple(map(table_row, found.rows)), charts=tuple(charts))
    answers = (found.answers.words,) if found.answers else ()
    yield Section(title="In words", lines=(*(row.words for row in rows), *answers))
    yield Section(title="What speaks against it", lines=found.doubts or ("nothing was found",))
    yield Section(
        title="Launches",
        folded=True,
        head=("launch", "side", "result", "seconds", "started", "server"),
        rows=tuple(
            (
                str(one.number + 1),
                one.name,
                " ".join(filter(None, (str(one.result), one.why, one.cause))),
                f"{one.seconds:.0f}",
                one.serve.started if one.serve else "",
                "; ".join(f"{name}: {value}" for name, value in one.facts.items())[:2000],
            )
            for one in found.launches
        ),
    )


def _shares(row: Row) -> dict[str, object]:
    ratio = row.found.ratio
    if ratio is None:
        return {"effect": None, "said": row.words}
    whole = ratio.freedom > 0
    low, high = (ratio.effect - ratio.half, ratio.effect + ratio.half) if whole else (None, None)
    return {"effect": ratio.effect, "low": low, "high": high, "said": row.words}


def table_row(row: Row) -> tuple[str, ...]:
    """The cells of one figure below ``HEAD``."""
    ratio, found = row.found.ratio, row.found
    interval = ""
    if ratio and ratio.freedom:
        low, high = percent(ratio.effect - ratio.half), percent(ratio.effect + ratio.half)
        interval = f"{low.removesuffix(' %')} to {high}"
    return (
        str(row.concurrency),
        row.figure.title,
        *(_mean(row, side) for side in ("A", "B")),
        percent(ratio.effect) if ratio else "",
        interval,
        percent(found.floor).removeprefix("+") if found.floor is not None else "",
        row.word + (f", {found.needed} would" if row.word == "not resolved" and found.needed else ""),
    )


def _mean(row: Row, side: str) -> str:
    """The mean of a side; both modes when it has two."""
    modes = row.found.modes[side == "B"]
    if modes:
        return " and ".join(f"{sum(one) / len(one):.4g} ({len(one)})" for one in (modes.lower, modes.upper))
    own = [point.value for point in row.points if point.side == side]
    return f"{sum(own) / len(own):.4g}" if own else ""
