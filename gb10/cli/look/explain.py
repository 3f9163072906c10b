"""``explain``: which kernel the engine takes for each layer of a model on a GB10."""

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated, Any

import typer

from gb10.cli.common import JsonOption, print_json, reported, verb_app, with_context
from gb10.cli.values import EngineOption
from gb10.errors import UsageError
from gb10.image.build.inspect import inspect_image
from gb10.image.context import Context
from gb10.image.explain.engine_choice import OWN, AskedEngine, Held, ready_to_ask, refuse
from gb10.image.explain.engine_files import EngineFacts
from gb10.image.explain.layer_rows import Answer, LayerRow, check_engine, code_of
from gb10.image.lock.lockfile import load_lock, load_recipe, lock_path
from gb10.image.proof.arch_match import Judged, judge
from gb10.image.recipe.arch import parse_arch
from gb10.image.request.kernel_choice import check_model, read_files

UNKNOWN = "unknown"


def as_document(answer: Answer, facts: EngineFacts, judged: Iterable[Judged] | None) -> dict[str, Any]:
    """The answer as data, schema gb10/explain/v1."""
    rows = [
        {**row.model_dump(by_alias=True, exclude={"held"}), "code": code_of(row.chosen, facts, judged)}
        for row in answer.rows
    ]
    return {
        "schema": "gb10/explain/v1",
        "engine": facts.engine,
        "stopped": answer.stopped,
        "notes": answer.notes,
        "layers": rows,
    }


def print_rows(answer: Answer, facts: EngineFacts, judged: Iterable[Judged] | None) -> None:
    """Each kind of layer: name, format, shapes, kernel, code; then what was refused, and what options take."""
    for note in answer.notes:
        print(f"note: {note}")
    if answer.upstream_stopped and answer.rows:
        print(f"note: the stock release stops: {answer.upstream_stopped.splitlines()[0]}")
    for row in answer.rows:
        print(f"{row.name}  ({row.count}x {row.kind}, {row.format or row.layer})")
        print(f"    shape    {row.shape or UNKNOWN}")
        print(f"    chosen   {row.chosen or UNKNOWN}")
        if row.chosen in facts.about:
            print(f"    about    {facts.about[row.chosen]}")
        if row.upstream:
            patch = facts.patches.get(row.kind)
            choice = f"our patch {patch} makes the choice above" if patch else "our patches make the choice above"
            print(f"    upstream {row.upstream}: {choice}")
        for kernel in row.before:
            print(f"    before   {kernel}")
        print(f"    code     {code_of(row.chosen, facts, judged)}")
        for kernel, reason in sorted(row.refused.items()):
            state = "unknown " if reason.startswith("unknown:") else "refused "
            print(f"    {state} {kernel}: {' '.join(reason.split())}")
        for line in _options(row, facts):
            print(f"    option   {line}")


def _options(row: LayerRow, facts: EngineFacts) -> list[str]:
    """What another option would choose: its value, or its name and value where several act on this kind of layer."""
    flags = facts.flags.get(row.kind, ())
    others = {value: kernel for value, kernel in row.options.items() if kernel != row.chosen}
    return [
        f"{option}: {kernel}"
        for value, kernel in others.items()
        for option in ([value] if value.startswith("--") else [f"{flag} {value}" for flag in flags])
    ]


WORD = re.compile(r"[A-Za-z0-9_]{1,40}")

app = verb_app("""Show which kernel the engine would take for each layer of a model on a GB10.

\b
./build.py explain Qwen/Qwen3-8B                       # the config.json of a model on the hub
./build.py explain models/mine                         # a folder, or a config.json
./build.py explain models/mine --image gb10/vllm:0.33.0-cu130-sm121f   # and where the kernel's code is
./build.py explain models/mine --moe-backend marlin    # with an option of the engine
./build.py explain models/mine --upstream              # the release as its project ships it, without our patches

The engine's own selection code runs, of the wheel in the lock, on the CPU. The device answers capability 12.1. It
builds the layers without weights, and no code of the model runs. Whatever it cannot know is printed as unknown.
Where a patch of ours makes the choice, the line "upstream" has the stock release's.

Exit 9: the engine has no backend for a layer; the error lists each kernel with the engine's own reason.
""")


def _as_for_the_engine(name: str, value: str = "NAME") -> Any:  # noqa: ANN401 - what typer returns
    """An option that the engine has, too."""
    least = 1 if value == "TOKENS" else None
    return typer.Option(name, metavar=value, min=least, help="As for the engine.")


@app.command(help=app.info.help)
@with_context
def explain(
    *,
    ctx: Context,
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A folder, a config.json, or OWNER/NAME[@COMMIT] on the hub.")
    ],
    engine: EngineOption = "vllm",
    image: Annotated[
        str | None, typer.Option("--image", metavar="IMAGE", help="Show where the kernels' code is in this image.")
    ] = None,
    upstream: Annotated[
        bool, typer.Option("--upstream", help="Ask the release as its project ships it: no patch, no package of ours.")
    ] = False,
    attention_backend: Annotated[str | None, _as_for_the_engine("--attention-backend")] = None,
    block_size: Annotated[int | None, _as_for_the_engine("--block-size", "TOKENS")] = None,
    moe_backend: Annotated[str | None, _as_for_the_engine("--moe-backend")] = None,
    linear_backend: Annotated[str | None, _as_for_the_engine("--linear-backend")] = None,
    kv_cache_dtype: Annotated[str | None, _as_for_the_engine("--kv-cache-dtype")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show which kernel the engine would take for each layer of a model."""
    options = _words(
        attention_backend=attention_backend,
        block_size=None if block_size is None else str(block_size),
        moe_backend=moe_backend,
        linear_backend=linear_backend,
        kv_cache_dtype=kv_cache_dtype,
    )
    scan = inspect_image(ctx, image).found.scan if image else None
    config = check_model(read_files(ctx, model), model)
    question = engine_of(ctx, engine)
    if image and scan:
        check_engine(image, scan.distributions, question.facts)
    # An image without our package has only what the stock release has.
    packages = None if scan is None else {one.name for one in scan.distributions}
    without = upstream or (packages is not None and OWN not in packages)
    held = Held(kernels="" if without else question.held.kernels, stock=upstream, beside=not upstream)
    question = replace(question, held=held)
    judged = judge(scan, parse_arch("12.1f")).judged if scan else None
    answer = question.answer(ctx, config, options)
    print_json(as_document(answer, question.facts, judged)) if as_json else print_rows(answer, question.facts, judged)
    with reported(as_json):
        refuse(answer, f"{engine} {question.facts.engine}{' as upstream ships it' if upstream else ''}")


def _words(**options: str | None) -> dict[str, str]:
    """The options that were given; raises UsageError for a value that is no word."""
    given = {name: value for name, value in options.items() if value is not None}
    for name, value in given.items():
        if WORD.fullmatch(value) is None:
            raise UsageError(f"--{name.replace('_', '-')} {value[:40]!r} is not the name of a backend or a type")
    return given


def engine_of(ctx: Context, engine: str) -> AskedEngine:
    """The engine of an image recipe, ready to be asked. Raises UsageError, LockStaleError, FetchError, PatchError."""
    path = ctx.catalog.recipe(engine)
    return ready_to_ask(ctx, load_recipe(path), load_lock(lock_path(path)))
