"""How a benchmark of an endpoint is shown: a line for each number of requests, then what was found."""

from typing import Final

from rich.table import Table

from gb10.cli.tables import print_table
from gb10.image.context import Context
from gb10.serving.load.results import Level, Served, mean_of
from gb10.serving.load.server_pages import Counted
from gb10.serving.trial.published import published

MOST: Final = 6
"""Published figures that are printed; bench show has all."""
FORMS: Final = ("{:.2f}", "{:.2f}", "{:.3f}", "{:.3f} s")
"""Of tok/s, steps/s, tokens a step, the time to the first token."""


def print_served(ctx: Context, served: Served) -> None:
    """A line for each level, then what was found."""
    print_table(ctx.env, served_table(served), least=100)
    alone = served.alone
    print(f"canaries one at a time: {alone.right} of {len(alone.answers)} right")
    for level in served.levels:
        if level.why:
            print(f"{level.concurrency} at once: {level.verdict}: {level.why}")
        for line in dict.fromkeys(run.hint for run in level.runs if run.hint):
            print(f"{level.concurrency} at once: hint: {line}")
        if level.counted.tokens_per_draft is not None:
            print(f"{level.concurrency} at once: the server counts {_accepted(level.counted)}")
    for flaw in served.flaws:
        print(f"stream: {flaw}")
    for doubt in served.doubts:
        print(f"doubt: {doubt}")
    for what in served.unknown:
        ctx.reporter.say(f"not known: {what}")
    wanted = {level.concurrency for level in served.levels}
    for one in [one for one in published(served.model) if one.row.concurrency in wanted][:MOST]:
        row = one.row
        runs = " ".join(filter(None, (row.engine, row.release, row.variant)))
        print(f"published at {row.concurrency}: {row.tokens_per_s:g} tok/s, {one.model}, {runs}: {row.source}")


def _accepted(counted: Counted) -> str:
    """``2.31 tokens a draft, accepted at each position: 81 %, 50 %``."""
    shares = ", ".join(f"{share:.0%}" for share in counted.accepted)
    return f"{counted.tokens_per_draft:.2f} tokens a draft" + (
        f", accepted at each position: {shares}" if shares else ""
    )


def served_table(served: Served) -> Table:
    """Means of the runs that count, warm-up apart; no figures where they mean nothing."""
    table = Table(box=None, pad_edge=False)
    heads = ("at once", "tok/s", "steps/s", "tokens/step", "first token", "warm-up tok/s", "canaries", "verdict")
    for name in heads:
        table.add_column(name, no_wrap=True, justify="left" if name == "verdict" else "right")
    for level in served.levels:
        table.add_row(str(level.concurrency), *_figures(level), _right(level), str(level.verdict))
    return table


def _figures(level: Level) -> tuple[str, ...]:
    if level.verdict.bad:
        return ("",) * (len(FORMS) + 1)
    warm = tuple(run for run in level.runs if run.warm_up)
    figures = [mean_of(level.steady, name) for name in ("tok_s", "steps_s", "tokens_per_step", "first_token_s")]
    texts = [form.format(one) if one is not None else "" for form, one in zip(FORMS, figures, strict=True)]
    first = mean_of(warm, "tok_s")
    return (*texts, f"{first:.2f}" if first is not None else "")


def _right(level: Level) -> str:
    right = sum(batch.right for batch in level.canaries)
    return f"{right} of {sum(len(batch.answers) for batch in level.canaries)} right"
