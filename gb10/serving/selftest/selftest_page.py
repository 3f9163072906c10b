"""A report for people: one HTML page, and a text to paste. Pure."""

from collections.abc import Iterator
from textwrap import fill
from typing import Final

from gb10.serving.benchmark.pages import Page, Section
from gb10.serving.selftest.outcome import Figure, Report, Result, StepReport

WIDTH: Final = 100
SIGNS: Final = {Result.HOLDS: "ok  ", Result.BROKEN: "FAIL", Result.UNCHECKED: "??  "}


def figure_words(one: Figure) -> str:
    """``101376 B``, ``yes``."""
    if isinstance(one.value, bool):
        return "yes" if one.value else "no"
    text = f"{one.value:.4g}" if isinstance(one.value, float) else str(one.value)
    return f"{text} {one.unit}".strip()


def image_words(report: Report) -> str:
    """The image in a line."""
    image = report.image
    if image is None:
        return "no image"
    return f"{image.reference} ({image.digest[:19] if image.digest else 'no digest'})"


def report_page(report: Report) -> Page:
    """The page."""
    bad, unknown = report.of(Result.BROKEN), report.of(Result.UNCHECKED)
    kind = "bad" if bad else "unsure" if unknown else "good"
    rows = tuple(
        (str(one.outcome.result), one.id, one.title, one.outcome.why, f"{one.seconds:.1f}")
        for one in report.steps
        if one.asked
    )
    others = tuple((one.id, one.title, one.outcome.why) for one in report.unasked)
    figures = tuple((one.id, name, figure_words(figure)) for one, name, figure in _figures(report))
    files = tuple((one.id, ", ".join(one.evidence)) for one in report.steps if one.evidence)
    sections = (
        Section(title="Steps", head=("result", "step", "what", "why", "seconds"), rows=rows),
        Section(title="Nobody asked for these steps", head=("step", "what", "why"), rows=others),
        Section(title="Figures", head=("step", "claim", "value"), rows=figures),
        Section(title="Evidence, in this folder", head=("step", "files"), rows=files, folded=True),
    )
    return Page(
        title="gb10 selftest",
        verdict=report.counts,
        kind=kind,
        lead=(f"{report.machine.words}.", f"Image: {image_words(report)}. Began {report.when}."),
        sections=tuple(one for one in sections if one.rows),
        made=f"gb10 {report.gb10}; {report.wall_s:.0f} s in all",
    )


def _figures(report: Report) -> Iterator[tuple[StepReport, str, Figure]]:
    for step in report.steps:
        for name, figure in sorted(step.outcome.claims.items()):
            yield step, name, figure


def report_text(report: Report) -> str:
    """To paste into an issue or a forum."""
    lines = [
        f"gb10 selftest {report.gb10}, {report.when}: {report.counts} in {report.wall_s:.0f} s",
        report.machine.words,
        f"kernel {report.machine.kernel or 'unknown'}; image {image_words(report)}",
        "",
    ]
    for step in report.steps:
        if not step.asked:
            lines.append(f"--   {step.id:16} {step.outcome.why}")
            continue
        lines.append(f"{SIGNS[step.outcome.result]} {step.id:16} {step.title}")
        if step.outcome.why:
            lines.append(fill(step.outcome.why, WIDTH, initial_indent=" " * 7, subsequent_indent=" " * 7))
        claims = [f"{name} {figure_words(one)}" for name, one in sorted(step.outcome.claims.items())]
        if claims:
            lines.append(fill("; ".join(claims), WIDTH, initial_indent=" " * 7, subsequent_indent=" " * 7))
    return "\n".join(lines) + "\n"
