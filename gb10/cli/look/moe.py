"""``moe``: check, seed and tune the files that Triton kernels of an engine take their tiles from."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from gb10.cli.common import AllowUncheckedOption, JsonOption, print_json, reported, verb_app, with_context
from gb10.cli.look.moe_seed import seed
from gb10.cli.look.moe_show import (
    GroupOption,
    ReleaseOption,
    TopkOption,
    TritonOption,
    as_document,
    judge_for_release,
    names_in_log,
    print_compiled,
    print_names,
    print_verdicts,
    refuse,
    refuse_names,
)
from gb10.cli.look.moe_tune import tune
from gb10.cli.values import EngineOption
from gb10.containers.images import find_image
from gb10.containers.reference import is_reference
from gb10.core.checked import refuse_unchecked, rows_of
from gb10.errors import UsageError
from gb10.image.build.inspect import no_image
from gb10.image.build.stage import engine_with_images
from gb10.image.context import Context, build_architecture
from gb10.image.lock.lockfile import load_lock, load_recipe, lock_path
from gb10.image.moe.asked_names import compare_names
from gb10.image.moe.compiled_rows import Compiled, compile_rows
from gb10.image.moe.file_verdict import FileVerdict, judge_files, write_layer
from gb10.image.moe.image_files import read_image
from gb10.image.moe.input_files import Batch, Sizes, read_input_files
from gb10.image.moe.left_out_rows import left_out
from gb10.image.moe.release_lookups import Judge
from gb10.image.plan.catalog import DEFAULT_ENGINE

app = verb_app(
    """Tuned files: the JSON files that name a tile for each batch size, for the engines' Triton kernels.

\b
./build.py moe check E=256,N=512,device_name=NVIDIA_GB10,dtype=fp8_w8a8.json
./build.py moe check ~/tuned --engine sglang            # a directory, as the engine's variable would name it
./build.py moe check gb10/vllm:0.33.0-cu130-sm121f      # the files of an image
./build.py moe seed ~/tuned --engine sglang --release 0.5.10 --experts 161 --width 384
./build.py moe tune t --experts 128 --width 768 --hidden 2048 --image IMAGE --host me@spark-1

The engine's own look-up decides, taken from its release and run without a GPU. docs/moe.md has the traps.
""",
    group=True,
)
RowsOption = Annotated[bool, typer.Option("--rows", help="Print every row, not only those with a problem.")]
LayerOption = Annotated[
    Path | None,
    typer.Option("--layer", metavar="DIR", help="Write the good files to a new directory for `image --overlay DIR`."),
]
CompileOption = Annotated[
    bool,
    typer.Option("--compile", help="Compile each row by the release's Triton for 12.1: bytes, registers, spills, MMA."),
]
LogOption = Annotated[
    Path | None,
    typer.Option("--log", metavar="FILE", help="The server's log: the names that it asked for, against the files."),
]
TargetArgument = Annotated[
    str, typer.Argument(metavar="FILE|DIR|IMAGE", help="A tuned file, a directory of them, or an image.")
]


@app.command()
@with_context
def check(
    *,
    ctx: Context,
    target: TargetArgument,
    engine: EngineOption = DEFAULT_ENGINE,
    release: ReleaseOption = None,
    triton: TritonOption = None,
    topk: TopkOption = 8,
    group_size: GroupOption = 128,
    rows: RowsOption = False,
    layer: LayerOption = None,
    compile_rows_too: CompileOption = False,
    log: LogOption = None,
    allow_unchecked: AllowUncheckedOption = False,
    as_json: JsonOption = False,
) -> None:
    """Check what an engine does with tuned files on a GB10.

    \b
    name      is the file found by the engine's own look-up, under the name that it has
    rows      would each row run on a GB10: keys, sizes, shared memory
    compiled  with --compile: registers, spills, matrix instructions
    log       with --log: the names that the engine asked for, and what differs from those that are there

    A part that could not be looked at is a row; then the exit code is 13 where nothing is wrong. Without --log nobody
    knows which name a model asks for.

    \b
    ./build.py moe check ~/tuned                                    # for the vLLM of the lock
    ./build.py moe check ~/tuned --engine sglang --release 0.5.14
    ./build.py moe check FILE.json --compile                        # and what the compiler makes of each row
    ./build.py moe check ~/dense --layer tuned && ./build.py image --overlay tuned
    ./build.py moe check gb10/vllm:0.33.0-cu130-sm121f --json
    ./build.py moe check ~/tuned --log server.log                   # why is my file not used

    A directory is read as VLLM_TUNED_CONFIG_FOLDER or SGLANG_MOE_CONFIG_DIR would be; dense FP8 files as a layer.
    Exit 9: a file is not read, stops the engine, or has a row that cannot run or computes wrong numbers; or the log
    asks for a name that no file has.
    """
    sizes = Sizes(topk=topk, group=group_size)
    with ctx.reporter.task("the engine's own look-up"):
        judge, batch = _judge_and_batch(ctx, target, engine, release, triton)
        verdicts = judge_files(judge, batch, sizes)
    compiled = _compiled(ctx, judge, batch, verdicts, sizes) if compile_rows_too else ()
    asked = names_in_log(log) if log else ()
    names = compare_names(asked, [given.path for given in batch.files])
    unchecked = tuple(left_out(verdicts, compiled if compile_rows_too else None, names if log else None))
    if as_json:
        print_json(as_document(judge, verdicts, compiled, names, unchecked))
    else:
        print_verdicts(judge, verdicts, rows=rows)
        print_compiled(compiled)
        print_names(names)
        for row in rows_of(unchecked):
            print(row)
    if layer:
        python = load_recipe(ctx.catalog.recipe(engine)).python
        for place in write_layer(judge, batch, verdicts, layer, python):
            ctx.reporter.say(f"{layer}: /{place}")
    with reported(as_json):
        refuse(judge, verdicts, compiled)
        refuse_names(names)
        refuse_unchecked(unchecked, allowed=allow_unchecked)


def _compiled(
    ctx: Context, judge: Judge, batch: Batch, verdicts: Sequence[FileVerdict], sizes: Sizes
) -> tuple[Compiled, ...]:
    locked = load_lock(lock_path(ctx.catalog.recipe(DEFAULT_ENGINE))).wheels.tools[build_architecture()]
    nvcc = next(wheel for wheel in locked if wheel.name == "nvidia-cuda-nvcc")
    with ctx.reporter.task(f"Triton {judge.triton} compiles for 12.1"):
        return tuple(compile_rows(judge, ctx.catalog.root, batch, verdicts, sizes, nvcc=nvcc))


def _judge_and_batch(
    ctx: Context, target: str, engine: str, release: str | None, triton: str | None
) -> tuple[Judge, Batch]:
    """The files of a path or an image, and who judges them."""
    if Path(target).exists() or not is_reference(target) or target.endswith(".json"):
        return judge_for_release(ctx, engine, release, triton), read_input_files(Path(target))
    holder = engine_with_images(ctx)
    image = find_image(holder, target) if holder else None
    if holder is None or image is None:
        raise no_image(holder, target)
    if release or triton:
        raise UsageError("an image has its own release and Triton", hint="leave out --release and --triton")
    found = read_image(ctx, ctx.catalog.root, holder, image, target)
    for remark in found.remarks:
        ctx.reporter.say(remark)
    return found.judge, found.batch


app.command()(seed)
app.command()(tune)
