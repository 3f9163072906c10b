"""``moe tune``: time rows of the fused MoE kernel on a Spark, and keep the default unless another clearly wins."""

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from gb10.cli.common import JsonOption, print_json, with_context
from gb10.cli.look.explain import engine_of
from gb10.cli.look.moe_show import (
    BlockOption,
    DtypeOption,
    ExpertsOption,
    HiddenOption,
    PerChannelOption,
    ReleaseOption,
    TopkOption,
    WidthOption,
    judge_for_release,
    shape_from_options,
)
from gb10.cli.values import EngineOption
from gb10.errors import UsageError, VerifyError
from gb10.image.context import Context
from gb10.image.explain.engine_choice import refuse
from gb10.image.moe.release_lookups import Judge
from gb10.image.moe.row_rules import LADDER
from gb10.image.moe.seeding import Model, Seed
from gb10.image.moe.tile_findings import Choice, choose
from gb10.image.moe.tuning import (
    Lane,
    TuningJournal,
    container_lane,
    kernel_counts,
    local_lane,
    make_job,
    run,
    write_tuned,
)
from gb10.image.plan.catalog import DEFAULT_ENGINE
from gb10.image.request.kernel_choice import check_model, read_files

EXPERTS = "experts"


def expert_kernel(ctx: Context, engine: str, model: str, backend: str | None) -> str:
    """The kernel of a model's experts. Raises VerifyError when it is not Triton's, or when there are no experts."""
    question = engine_of(ctx, engine)
    facts, options = question.facts, {"moe_backend": backend} if backend else {}
    answer = question.answer(ctx, check_model(read_files(ctx, model), model), options)
    refuse(answer, f"{engine} {facts.engine}")
    rows = [row for row in answer.rows if row.kind == EXPERTS]
    if not rows:
        raise VerifyError(f"{model} has no experts: there is nothing to tune", hint=f"./build.py explain {model}")
    chosen = rows[0].chosen or "unknown"
    if "triton" not in chosen.lower():
        raise VerifyError(
            f"{engine} {facts.engine} takes {chosen} for the experts of {model}, not Triton",
            where="a tuned file would never be read",
            hint="with --moe-backend triton the engine reads it; measure both before you choose",
        )
    if chosen in facts.about:
        ctx.reporter.say(f"{engine} {facts.engine} takes {chosen}: {facts.about[chosen]}")
    return chosen


WORD = re.compile(r"[A-Za-z0-9_]{1,40}")
OutArgument = Annotated[Path, typer.Argument(metavar="DIR", help="Where findings, file and picture go.")]
ModelOption = Annotated[
    str | None, typer.Option("--model", metavar="MODEL", help="First ask whether the engine uses Triton for it.")
]
BackendOption = Annotated[str | None, typer.Option("--moe-backend", metavar="NAME", help="As for the engine.")]
ImageOption = Annotated[str | None, typer.Option("--image", metavar="IMAGE", help="Run in this image on each host.")]
HostOption = Annotated[
    list[str] | None,
    typer.Option("--host", metavar="HOST", help="A Spark, by ssh, as for `pull`. Repeatable: they share the sizes."),
]
PythonOption = Annotated[
    str | None, typer.Option("--python", metavar="PATH", help="Run here, with a Python that has PyTorch and Triton.")
]
SizeOption = Annotated[
    list[int] | None, typer.Option("--size", min=1, max=65536, metavar="M", help="A batch size. Repeatable.")
]
MemoryOption = Annotated[
    int, typer.Option("--memory", min=1, max=512, metavar="GIB", help="GPU memory to use at most.")
]
CountOption = Annotated[bool, typer.Option("--count", help="Print how many kernels would be compiled, and stop.")]


@with_context
def tune(
    *,
    ctx: Context,
    out: OutArgument,
    engine: EngineOption = DEFAULT_ENGINE,
    release: ReleaseOption = None,
    experts: ExpertsOption,
    width: WidthOption,
    hidden: HiddenOption,
    topk: TopkOption = 8,
    dtype: DtypeOption = "fp8_w8a8",
    block: BlockOption = None,
    per_channel: PerChannelOption = False,
    model: ModelOption = None,
    moe_backend: BackendOption = None,
    image: ImageOption = None,
    host: HostOption = None,
    python: PythonOption = None,
    size: SizeOption = None,
    memory: MemoryOption = 24,
    count: CountOption = False,
    as_json: JsonOption = False,
) -> None:
    """Time tiles on a Spark; the engine's own stay unless others win.

    \b
    ./build.py moe tune t --experts 288 --width 512 --hidden 4096 --block 128x128 --image IMAGE --host me@spark-1
    ./build.py moe tune t --experts 128 --width 768 --hidden 2048 --python python3   # on this machine's GPU

    Run it again after an interruption: nothing is timed twice. docs/moe.md says what is timed and what wins.
    """
    _say_backend(ctx, engine, model, moe_backend)
    place = _lanes(ctx, image, host, python)
    judge, later = judge_for_release(ctx, engine, release, None), judge_for_release(ctx, engine, None, None)
    meant = shape_from_options(experts, width, dtype, block, per_channel=per_channel)
    shape = Model(meant=meant, hidden=hidden, topk=topk, group=128)
    seed, job = make_job(judge, later, shape, size or LADDER, memory << 30)
    own, upstream = kernel_counts(job)
    ctx.reporter.say(f"at most {own:,} kernels to compile; upstream's tuner compiles {upstream:,}")
    if count:
        print_json({"schema": "gb10/moe-tune-count/v1", "own": own, "upstream": upstream, "rows": len(job.rows)})
        return
    with place as lanes:
        record = TuningJournal(out / "findings.jsonl", job)
        run(job, lanes, record, ctx.reporter)
    choices = choose(record.findings, job.defaults)
    written = write_tuned(judge, seed, choices, record.findings, out)
    print_json(_document(judge, seed, choices, written)) if as_json else _print(choices, written)


def _say_backend(ctx: Context, engine: str, model: str | None, backend: str | None) -> None:
    if backend is not None and WORD.fullmatch(backend) is None:
        raise UsageError(f"--moe-backend {backend[:40]!r} is no name of a backend")
    if model is None:
        ctx.reporter.say("whether the engine uses Triton for your model is not known: name it with --model")
        return
    ctx.reporter.say(f"{expert_kernel(ctx, engine, model, backend)} serves the experts of {model}")


@contextmanager
def _lanes(ctx: Context, image: str | None, hosts: list[str] | None, python: str | None) -> Iterator[dict[str, Lane]]:
    if (python is None) == (image is None) or bool(hosts) != bool(image):
        raise UsageError(
            "say where to run", hint="--image IMAGE --host HOST for Sparks, or --python PATH for this machine"
        )
    with ExitStack() as opened, ctx.store.folder("tune") as work:
        if python is not None:
            yield {"here": local_lane(ctx, python, work)}
        else:
            yield {host: opened.enter_context(container_lane(host, image or "")) for host in hosts or ()}


def _document(judge: Judge, seed: Seed, choices: tuple[Choice, ...], written: list[str]) -> dict[str, Any]:
    return {
        "schema": "gb10/moe-tune/v1",
        "engine": judge.engine,
        "version": judge.version,
        "name": seed.name,
        "choices": [
            {
                "size": choice.size,
                "row": dict(choice.row),
                "kept": choice.is_default,
                "win": choice.win,
                "spread": choice.spread,
                "default_us": choice.microseconds,
            }
            for choice in choices
        ],
        "written": written,
    }


def _print(choices: tuple[Choice, ...], written: list[str]) -> None:
    for choice in choices:
        line = (
            "the default stays"
            if choice.is_default
            else f"{choice.win:.1%} faster, spread {choice.spread:.1%}: {dict(choice.row)}"
        )
        print(f"batch {choice.size}: {choice.microseconds:,.0f} us, {line}")
    if all(choice.is_default for choice in choices):
        print("no row wins by more than 2 % and twice its spread: no file is needed")
    for path in written:
        print(f"wrote {path}")
