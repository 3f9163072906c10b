"""``recipe new``: a model by its files becomes a model recipe."""

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from gb10.cli.models.options import PurposeOption, choice_request
from gb10.cli.verb import JsonOption, print_json, with_reporter
from gb10.core.reporter import Reporter
from gb10.errors import UsageError
from gb10.image.context import open_context
from gb10.image.request.chosen_recipe import choose_for
from gb10.models.choose.choosing import lines
from gb10.models.choose.writing import recipe_name, recipe_text

SCHEMA = "gb10/recipe-new/v1"


@with_reporter
def new(
    *,
    reporter: Reporter,
    model: Annotated[str, typer.Argument(metavar="MODEL", help="OWNER/NAME[@REVISION] on the Hub, or a folder.")],
    engine: Annotated[str | None, typer.Option("--engine", metavar="ENGINE", help="vllm or sglang.")] = None,
    purpose: PurposeOption = "chat",
    nodes: Annotated[int | None, typer.Option("--nodes", metavar="N", min=1, max=16, help="On N nodes.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write it there.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Write a recipe for a model, chosen from its files.

    Config, headers of the weights and tokenizer files are read; no weight is downloaded. Each choice has its reason in
    the file: engine, nodes, share of memory, context, cache, parsers. What is not known to be better is left to the
    engine.

    \b
    ./build.py recipe new Qwen/Qwen3-8B                       # print it
    ./build.py recipe new /models/mine --for agents --out mine.yaml
    ./build.py recipe new OWNER/NAME --nodes 2 --json         # with the reasons
    """
    wish = choice_request(purpose=purpose, engine=engine, nodes=nodes)
    choice = choose_for(open_context(os.environ, verbosity=reporter.verbosity), model, wish)
    text = recipe_text(choice)
    if out is not None:
        if out.exists():
            raise UsageError(f"{out} is there already", hint="name another file")
        out.write_text(text, encoding="utf-8")
    if as_json:
        reasons = [asdict(reason) for reason in choice.reasons]
        name = recipe_name(choice.files.name)
        print_json({"schema": SCHEMA, "name": name, "reasons": reasons, "text": text})
        return
    for line in lines(choice):
        reporter.say(line)
    print(out if out is not None else text, end="\n" if out is not None else "")
