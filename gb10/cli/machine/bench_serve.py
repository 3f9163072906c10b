"""``bench serve``: the throughput of an endpoint, with its answers judged."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.table import Table

from gb10.cli.common import JsonOption, print_json, reported, with_context
from gb10.cli.machine.bench_target import Target, targets
from gb10.cli.machine.load_options import BootOption, plans
from gb10.cli.verb import print_table
from gb10.errors import UsageError, VerifyError
from gb10.image.context import Context
from gb10.serving.benchmark.bench_bundle import write_serve_bundle
from gb10.serving.benchmark.published import published
from gb10.serving.load_generator.bench_endpoint import serve as measure
from gb10.serving.load_generator.benchy import find_tokenizer
from gb10.serving.load_generator.endpoint import reach
from gb10.serving.load_generator.load_plan import Plan, make_bench
from gb10.serving.load_generator.results import Level, ServeResult, mean_of
from gb10.serving.load_generator.server_pages import ServerCounts

MOST: Final = 6
"""Published figures that are printed; bench show has all."""
FORMS: Final = ("{:.2f}", "{:.2f}", "{:.3f}", "{:.3f} s")
"""Of tok/s, steps/s, tokens a step, the time to the first token."""


def print_served(ctx: Context, served: ServeResult) -> None:
    """A line for each level, then what was found."""
    print_table(ctx.env, served_table(served), least=100)
    alone = served.alone
    print(f"canaries one at a time: {alone.right} of {len(alone.answers)} right")
    for level in served.levels:
        where = served.place(level)
        if level.why:
            print(f"{where}: {level.verdict}: {level.why}")
        for line in dict.fromkeys(run.hint for run in level.runs if run.hint):
            print(f"{where}: hint: {line}")
        if level.counted.tokens_per_draft is not None:
            print(f"{where}: the server counts {_accepted(level.counted)}")
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


def _accepted(counted: ServerCounts) -> str:
    """``2.31 tokens a draft, accepted at each position: 81 %, 50 %``."""
    shares = ", ".join(f"{share:.0%}" for share in counted.accepted)
    return f"{counted.tokens_per_draft:.2f} tokens a draft" + (
        f", accepted at each position: {shares}" if shares else ""
    )


def served_table(served: ServeResult) -> Table:
    """Means of the runs that count, warm-up apart; no figures where they mean nothing. A block for each length."""
    table = Table(box=None, pad_edge=False)
    several = len(served.lengths) > 1
    heads = ("at once", "tok/s", "steps/s", "tokens/step", "first token", "warm-up tok/s", "canaries", "verdict")
    for name in ("tokens out", *heads) if several else heads:
        table.add_column(name, no_wrap=True, justify="left" if name == "verdict" else "right")
    for answer in served.lengths:
        if answer != served.lengths[0]:
            table.add_row()
        for level in (one for one in served.levels if one.answer == answer):
            right = sum(batch.right for batch in level.canaries)
            asked = sum(len(batch.answers) for batch in level.canaries)
            row = (str(level.concurrency), *_figures(level), f"{right} of {asked} right", str(level.verdict))
            table.add_row(*(f"{answer:,}", *row) if several else row)
    return table


def _figures(level: Level) -> tuple[str, ...]:
    if level.verdict.bad:
        return ("",) * (len(FORMS) + 1)
    warm = tuple(run for run in level.runs if run.warm_up)
    figures = [mean_of(level.steady, name) for name in ("tok_s", "steps_s", "tokens_per_step", "first_token_s")]
    texts = [form.format(one) if one is not None else "" for form, one in zip(FORMS, figures, strict=True)]
    first = mean_of(warm, "tok_s")
    return (*texts, f"{first:.2f}" if first is not None else "")


UrlArgument = Annotated[str, typer.Argument(metavar="URL", help="http://HOST:PORT, with or without /v1.")]
OutOption = Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write the JSON document there, too.")]

BundleOption = Annotated[
    Path | None, typer.Option("--bundle", metavar="FILE", help="Write a zip that bench replay repeats elsewhere.")
]


@plans
@with_context
@targets
def serve(
    *,
    url: UrlArgument,
    ctx: Context,
    plan: Plan,
    target: Target,
    boot: BootOption = "",
    out: OutOption = None,
    bundle: BundleOption = None,
    as_json: JsonOption = False,
) -> None:
    """Time a serving endpoint, and check its answers.

    \b
    ./build.py bench serve http://spark-1:8000                    # 1, 4 and 8 requests at once
    ./build.py bench serve http://spark-1:8000 -c 16 --runs 5 --out result.json
    ./build.py bench serve http://spark-1:8000 -c 1 --tg 128 --tg 512 --tg 1024 --no-thinking

    The endpoint speaks OpenAI's API: vLLM, SGLang, llama.cpp. The load is llama-benchy's, which comes by hash from the
    package index, once. The guard reads every stream of it (docs/guard.md). Before and after the load, the same number
    of canaries is sent at once: each has a code to repeat and a question. Exit 9 when the answers are garbage, broken
    or empty; garbage stops the load.

    Prompts are cut from a book: --book, else the one in llama-benchy's own cache, else gb10's documentation. The key
    of the endpoint is OPENAI_API_KEY.
    """
    if bundle is not None:
        plan.of_one_length("--bundle")
    endpoint = reach(url, target.model, ctx.env)
    how = replace(target.measure(ctx, plan), model=endpoint.model)
    found = find_tokenizer(target.tokenizer, endpoint.model, ctx.env)
    served = measure(make_bench(ctx, endpoint, replace(plan, boot=boot), found, how.book))
    if out is not None:
        write(out, served)
    if bundle is not None:
        ctx.reporter.say(f"{bundle}: sha256 {write_serve_bundle(bundle, served, how)}")
    if as_json:
        print_json(served.document())
    else:
        print_served(ctx, served)
    with reported(as_json):
        if served.verdict.bad:
            raise VerifyError(
                f"the answers are {served.verdict}: the figures mean nothing",
                where=served.why,
                hint="docs/guard.md says what each verdict means; the server's log comes next",
            )


def write(path: Path, served: ServeResult) -> None:
    """The document to a file; raises UsageError."""
    try:
        path.write_text(json.dumps(served.document(), indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}", hint="choose another file for --out") from error
