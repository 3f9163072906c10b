"""One benchmark of an endpoint as a page: its levels, its conditions, what others published. Pure."""

from collections.abc import Iterator, Sequence

from gb10.serving.chart.levels import Mark, Measured, levels
from gb10.serving.trial.compared_figures import FIGURES
from gb10.serving.trial.published import Published
from gb10.serving.trial.published_section import marks, published_section
from gb10.serving.trial.result_page import Page, Section
from gb10.serving.trial.saved_serve import SavedLevel, SavedServe

HEAD = ("at once", *(figure.title for figure in FIGURES), "canaries", "verdict")


def serve_page(served: SavedServe, published: Sequence[Published], made: str) -> Page:
    """The page of a benchmark."""
    settings = served.settings
    load = f"{settings.get('prompt')} tokens in, {settings.get('answer')} out, {settings.get('runs')} runs"
    return Page(
        title=served.model,
        verdict=str(served.verdict),
        kind="bad" if served.verdict.bad else "good" if served.verdict == "OK" else "unsure",
        lead=(f"{load}; by {settings.get('tool')} {settings.get('tool_version')}, {served.started}",),
        sections=tuple(_sections(served, published)),
        made=made,
    )


def _sections(served: SavedServe, published: Sequence[Published]) -> Iterator[Section]:
    yield Section(
        title="Figures", head=HEAD, rows=tuple(map(_row, served.levels)), charts=tuple(_charts(served, published))
    )
    said = tuple(f"{level.concurrency} at once: {level.verdict}: {level.why}" for level in served.levels if level.why)
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


def _charts(served: SavedServe, published: Sequence[Published]) -> Iterator[str]:
    for figure in FIGURES:
        found = []
        for level in served.levels:
            values = [getattr(run, figure.name) for run in level.runs if not run.warm_up]
            if level.figure(figure.name) is not None:
                found.append(Measured(concurrency=level.concurrency, values=tuple(values)))
        crosses: tuple[Mark, ...] = marks(published) if figure.name == "tok_s" else ()
        if found:
            said = "; crosses: published" if crosses else ""
            yield levels(f"{figure.title}{said}", found, crosses)
