"""A result for people: titles, tables, lines and charts; as one HTML file, or as markdown for a forum."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, StrictUndefined

from gb10.serving.benchmark.compared import FIGURES, SPEED, Compared, Row
from gb10.serving.benchmark.launch_line import Result
from gb10.serving.benchmark.matrix import Done, counts
from gb10.serving.benchmark.published import Published
from gb10.serving.benchmark.saved_serve import SavedLevel, SavedServe
from gb10.serving.chart import Bar, LevelFigures, Mark, bars, effects, launches, levels
from gb10.serving.load_generator.results import place
from gb10.serving.stats.comparison import percent

TEMPLATE: Final = Path(__file__).with_name("bench.html.j2")


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of a page. ``rows`` are cells below ``head``; a cell of numbers is set to the right."""

    title: str
    lines: tuple[str, ...] = ()
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    charts: tuple[str, ...] = ()
    """SVG of the room ``chart``: all text in it is escaped."""
    folded: bool = False
    """Shown when a reader opens it."""

    @property
    def numbers(self) -> frozenset[int]:
        """The columns whose cells all begin with a number."""
        columns = ([row[at] for row in self.rows if row[at]] for at in range(len(self.head)))
        return frozenset(at for at, cells in enumerate(columns) if cells and all(c[0] in "+-0123456789" for c in cells))


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A whole result; ``kind`` is the colour of its verdict: good, bad or unsure."""

    title: str
    verdict: str
    kind: str
    lead: tuple[str, ...]
    sections: tuple[Section, ...]
    made: str


def html(page: Page) -> str:
    """One file: it loads nothing, runs no script, and follows the reader's colours."""
    env = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = env.from_string(TEMPLATE.read_text(encoding="utf-8"))
    return template.render(page=page) + "\n"


def markdown(page: Page) -> str:
    """Tables and lines, for a forum or an issue; what a page folds is left out. Pure."""
    parts = [f"**{_plain(page.title)}: {_plain(page.verdict)}**", *map(_plain, page.lead)]
    for section in (one for one in page.sections if not one.folded):
        if section.rows or section.lines:
            parts.append(f"**{_plain(section.title)}**")
        if section.rows:
            parts.append(_table(section))
        if section.lines:
            parts.append("\n".join(f"- {_plain(line)}" for line in section.lines))
    return "\n\n".join([*parts, f"<sub>{_plain(page.made)}</sub>"]) + "\n"


def _table(section: Section) -> str:
    rules = ["---:" if at in section.numbers else "---" for at in range(len(section.head))]
    lines = (section.head, rules, *section.rows)
    return "\n".join(f"| {' | '.join(map(_plain, line))} |" for line in lines)


def _plain(text: str) -> str:
    """A text without what markdown and HTML would read in it."""
    found = " ".join(text.split()).replace("\\", "\\\\")
    for sign in "|*_`[":
        found = found.replace(sign, f"\\{sign}")
    return escape(found, quote=False)


HEAD = ("at once", "tok/s", "engine", "nodes", "model files", "by", "source")


def published_section(found: Sequence[Published]) -> tuple[Section, ...]:
    """A table with sources; nothing when nobody published a figure."""
    if not found:
        return ()
    rows = tuple(
        (
            str(one.row.concurrency),
            f"{one.row.tokens_per_s:g}",
            " ".join(filter(None, (one.row.engine, one.row.release, one.row.variant))),
            str(one.row.nodes),
            one.model,
            " ".join(filter(None, (one.row.measured_by, one.row.date))),
            "; ".join(filter(None, (one.row.source, one.row.note))),
        )
        for one in found
    )
    lines = ("other machines, loads and releases: a published figure is a mark, not the other side of a comparison",)
    return (Section(title="What others published", head=HEAD, rows=rows, lines=lines),)


def marks(found: Sequence[Published]) -> tuple[Mark, ...]:
    """The marks of a chart of tokens a second."""
    return tuple(
        Mark(
            concurrency=one.row.concurrency,
            value=one.row.tokens_per_s,
            tooltip=f"{one.row.tokens_per_s:g} tok/s, {one.row.engine}, {one.row.measured_by}: {one.row.source}",
        )
        for one in found
        if one.row.tokens_per_s is not None
    )


SERVE_HEAD = ("at once", *(figure.title for figure in FIGURES), "canaries", "verdict")


def serve_page(served: SavedServe, published: Sequence[Published], made: str) -> Page:
    """The page of a benchmark."""
    settings = served.settings
    answer = settings.get("answer")
    out = ", ".join(map(str, answer)) if isinstance(answer, list) else answer
    load = f"{settings.get('prompt')} tokens in, {out} out, {settings.get('runs')} runs"
    return Page(
        title=served.model,
        verdict=str(served.verdict),
        kind="bad" if served.verdict.bad else "good" if served.verdict == "OK" else "unsure",
        lead=(f"{load}; by {settings.get('tool')} {settings.get('tool_version')}, {served.started}",),
        sections=tuple(_sections(served, published)),
        made=made,
    )


def _sections(served: SavedServe, published: Sequence[Published]) -> Iterator[Section]:
    several = len(served.lengths) > 1
    for answer in served.lengths:
        levels = [level for level in served.levels if level.answer == answer]
        yield Section(
            title=f"Figures, {answer:,} tokens out" if several else "Figures",
            head=SERVE_HEAD,
            rows=tuple(map(_row, levels)),
            charts=tuple(_charts(levels, published)),
        )
    said = tuple(
        f"{place(level.answer or 0, level.concurrency, several=several)}: {level.verdict}: {level.why}"
        for level in served.levels
        if level.why
    )
    yield Section(title="What speaks against it", lines=(*said, *served.doubts) or ("nothing was found",))
    yield from published_section(published)
    known = {**served.server, **{name: value for name, value in served.machine.items() if name != "gpu"}}
    rows = tuple((str(name), str(value)[:2000]) for name, value in known.items())
    yield Section(
        title="Server and machine", folded=True, head=("what", "value"), rows=rows, lines=tuple(served.unknown)
    )


def _row(level: SavedLevel) -> tuple[str, ...]:
    figures = (level.figure(figure.name) for figure in FIGURES)
    right, count = level.right
    texts = (f"{value:.4g}" if value is not None else "" for value in figures)
    return (str(level.concurrency), *texts, f"{right} of {count}", str(level.verdict))


def _charts(measured: Sequence[SavedLevel], published: Sequence[Published]) -> Iterator[str]:
    for figure in FIGURES:
        found = []
        for level in measured:
            values = [getattr(run, figure.name) for run in level.runs if not run.warm_up]
            if level.figure(figure.name) is not None:
                found.append(LevelFigures(concurrency=level.concurrency, values=tuple(values)))
        crosses: tuple[Mark, ...] = marks(published) if figure.name == "tok_s" else ()
        if found:
            doubt_lines = "; crosses: published" if crosses else ""
            yield levels(f"{figure.title}{doubt_lines}", found, crosses)


KINDS = {"faster": "good", "slower": "bad", "garbage": "bad", "worse answers": "bad"}
COMPARE_HEAD = ("at once", "figure", "A", "B", "B against A", "95 %", "A/A", "verdict")


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
        sections=tuple(_compare_sections(found)),
        made=made,
    )


def _compare_sections(found: Compared) -> Iterator[Section]:
    rows = [row for row in found.rows if row.figure.name in SPEED]
    shown = [{**_shares(row), "label": f"{row.figure.title} at {row.concurrency}", "word": row.word} for row in rows]
    charts = [effects("B against A", shown, found.margin)] if shown else []
    charts += [launches(f"{row.figure.title} at {row.concurrency}", row.points) for row in rows]
    yield Section(title="Figures", head=COMPARE_HEAD, rows=tuple(map(table_row, found.rows)), charts=tuple(charts))
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
        return {"effect": None, "tooltip": row.words}
    whole = ratio.freedom > 0
    low, high = (ratio.effect - ratio.half, ratio.effect + ratio.half) if whole else (None, None)
    return {"effect": ratio.effect, "low": low, "high": high, "tooltip": row.words}


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


BEST = "one launch each: rows that differ by less than 8 % may be equal; compare the best two by bench compare"


def matrix_page(done: Sequence[Done], head: Mapping[str, Any], published: Sequence[Published], made: str) -> Page:
    """The page of a matrix."""
    found = counts(done)
    loads = [(one.row.name, one.line.serve) for one in done if one.line and one.line.serve]
    doubts = [f"{name}: {doubt}" for name, load in loads for doubt in load.doubts]
    what = head.get("recipe") or (loads[0][1].model if loads else None) or "a command"
    return Page(
        title=f"{what}: {len(done)} rows",
        verdict=", ".join(f"{count} {name}" for name, count in found.items() if count),
        kind="good" if found["STABLE"] == len(done) else "bad" if not found["STABLE"] else "unsure",
        lead=(BEST,) if found["STABLE"] > 1 else (),
        sections=(
            Section(title="Rows", head=head_of(done), rows=table_rows(done), charts=_matrix_charts(done)),
            Section(title="What speaks against the figures", lines=tuple(doubts[:100]) or ("nothing was found",)),
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


def _matrix_charts(done: Sequence[Done]) -> tuple[str, ...]:
    return tuple(
        bars(
            f"tok/s at {level}",
            [
                Bar(
                    name=one.row.name,
                    result=str(one.line.result) if one.line else "left out",
                    value=figure(one, level),
                    tooltip=one.row.name,
                )
                for one in done
            ],
        )
        for level in concurrencies(done)
    )
