"""What others published, as a part of a page and as marks of a chart. Pure."""

from collections.abc import Sequence

from gb10.serving.chart.levels import Mark
from gb10.serving.trial.published import Published
from gb10.serving.trial.result_page import Section

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
            said=f"{one.row.tokens_per_s:g} tok/s, {one.row.engine}, {one.row.measured_by}: {one.row.source}",
        )
        for one in found
        if one.row.tokens_per_s is not None
    )
