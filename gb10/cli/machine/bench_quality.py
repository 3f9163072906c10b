"""``bench quality``: how good the answers of an endpoint are."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final

import typer

from gb10.cli.common import JsonOption, print_json, reported, with_context
from gb10.cli.machine.bench_serve import UrlArgument
from gb10.cli.machine.bench_target import ModelOption
from gb10.errors import VerifyError
from gb10.image.context import Context
from gb10.serving.load_generator.endpoint import reach
from gb10.serving.load_generator.quality import LIMIT, TASK, Exam, Judge, Quality, by_canaries, examine, installed

SCHEMA: Final = "gb10/quality/v1"
WithOption = Annotated[
    Judge | None,
    typer.Option("--with", metavar="JUDGE", help="tool-eval-bench, lm-eval or canaries. Default: what is installed."),
]
TaskOption = Annotated[str, typer.Option("--task", metavar="NAME", help="A task of lm-eval.")]
LimitOption = Annotated[int, typer.Option("--limit", metavar="N", min=1, max=100_000, help="Questions of the task.")]
TasksOption = Annotated[
    Path | None, typer.Option("--tasks", metavar="DIR", help="A folder with tasks of your own, for lm-eval.")
]
LeastOption = Annotated[
    float, typer.Option("--least", metavar="PERCENT", min=0.0, max=100.0, help="Exit 9 for fewer right answers.")
]


@with_context
def quality(
    *,
    url: UrlArgument,
    ctx: Context,
    judge: WithOption = None,
    task: TaskOption = TASK,
    limit: LimitOption = LIMIT,
    tasks: TasksOption = None,
    least: LeastOption = 0.0,
    model: ModelOption = None,
    as_json: JsonOption = False,
) -> None:
    """Ask an endpoint questions, and count the right answers.

    \b
    ./build.py bench quality http://spark-1:8000                       # what is installed, else canaries
    ./build.py bench quality http://spark-1:8000 --with canaries --least 90
    ./build.py bench quality http://spark-1:8000 --with lm-eval --task gsm8k --limit 200

    tool-eval-bench asks its 15 core scenarios. lm-eval downloads the questions of a task. Canaries are 64 requests,
    eight at once, each with a code to repeat and a question (docs/guard.md).
    """
    endpoint = reach(url, model, ctx.env)
    chosen = judge or installed(ctx.env)
    with ctx.reporter.task(f"questions of {chosen}"):
        if chosen == "canaries":
            found = by_canaries(endpoint, ctx.env)
        else:
            exam = Exam(judge=chosen, task=task, limit=limit, tasks=tasks.resolve() if tasks else None)
            found = examine(ctx, endpoint, exam, ctx.store.root / "logs/quality.log")
    if as_json:
        print_json({"schema": SCHEMA, "endpoint": endpoint.url, "model": endpoint.model, **asdict(found)})
    else:
        print(f"{found.points} of {found.of} right, {found.share:.0%}: {found.judge}, {found.what}")
    with reported(as_json):
        _refuse(found, least)


def _refuse(found: Quality, least: float) -> None:
    if 100 * found.share < least:
        raise VerifyError(f"{found.share:.0%} of the answers are right, fewer than {least:g} %")
