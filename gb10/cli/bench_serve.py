"""``bench serve``: the throughput of an endpoint, with its answers judged."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from gb10.cli.bench_serve_show import print_served
from gb10.cli.bench_target import Target, targets
from gb10.cli.common import JsonOption, print_json, reported, with_context
from gb10.cli.load_options import BootOption, plans
from gb10.errors import UsageError, VerifyError
from gb10.image.context import Context
from gb10.serving.load.benchy import find_tokenizer
from gb10.serving.load.endpoint import reach
from gb10.serving.load.load_plan import Plan, make_bench
from gb10.serving.load.results import Served
from gb10.serving.load.serving import serve as measure
from gb10.serving.trial.serve_bundle import write_serve_bundle

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

    The endpoint speaks OpenAI's API: vLLM, SGLang, llama.cpp. The load is llama-benchy's, which comes by hash from the
    package index, once. The guard reads every stream of it (docs/guard.md). Before and after the load, the same number
    of canaries is sent at once: each has a code to repeat and a question. Exit 9 when the answers are garbage, broken
    or empty; garbage stops the load.

    Prompts are cut from a book: --book, else the one in llama-benchy's own cache, else gb10's documentation. The key
    of the endpoint is OPENAI_API_KEY.
    """
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
        refuse_bad(served)


def write(path: Path, served: Served) -> None:
    """The document to a file; raises UsageError."""
    try:
        path.write_text(json.dumps(served.document(), indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}", hint="choose another file for --out") from error


def refuse_bad(served: Served) -> None:
    """Raise VerifyError when the figures mean nothing."""
    if served.verdict.bad:
        raise VerifyError(
            f"the answers are {served.verdict}: the figures mean nothing",
            where=served.why,
            hint="docs/guard.md says what each verdict means; the server's log comes next",
        )
