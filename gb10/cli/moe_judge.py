"""Options that the verbs of ``moe`` share, and the release that they ask."""

import re
from typing import Annotated

import typer

from gb10.errors import UsageError
from gb10.image.context import Context
from gb10.image.lock.lockfile import load_lock, load_recipe, lock_path
from gb10.image.moe.release_lookups import Judge, open_judge
from gb10.image.moe.tuned_name import SPELLED, Meant

RELEASE = re.compile(r"[0-9][0-9A-Za-z.]{0,30}")
BLOCK = re.compile(r"(\d{1,4})[x,](\d{1,4})")
DTYPES = ("bf16", "fp8_w8a8", "int8_w8a8", "int8_w8a16", "int4_w4a16")
ReleaseOption = Annotated[
    str | None, typer.Option("--release", metavar="VERSION", help="A release of the engine. Default: the lock's.")
]
TritonOption = Annotated[
    str | None, typer.Option("--triton", metavar="VERSION", help="Triton's version. Default: the release's own.")
]
TopkOption = Annotated[int, typer.Option("--topk", min=1, max=256, metavar="N", help="Experts for each token.")]
GroupOption = Annotated[
    int, typer.Option("--group-size", min=1, max=1024, metavar="N", help="Weights that share a scale in int4 and int8.")
]
ExpertsOption = Annotated[
    int, typer.Option("--experts", min=1, max=4096, metavar="E", help="Experts on one GPU, with fused shared ones.")
]
WidthOption = Annotated[
    int, typer.Option("--width", min=16, max=65536, metavar="N", help="Intermediate size of an expert on one GPU.")
]
HiddenOption = Annotated[int, typer.Option("--hidden", min=16, max=65536, metavar="N", help="The model's hidden size.")]
DtypeOption = Annotated[str, typer.Option("--dtype", metavar="TYPE", help=f"{', '.join(DTYPES)}.")]
BlockOption = Annotated[
    str | None, typer.Option("--block", metavar="RxC", help="FP8 blocks that share a scale: 128x128.")
]
PerChannelOption = Annotated[
    bool, typer.Option("--per-channel", help="Scales for each channel; SGLang's name has them.")
]


def the_judge(ctx: Context, engine: str, release: str | None, triton: str | None) -> Judge:
    """The look-ups of a release: the one that is named, else the lock's."""
    for option, value in (("--release", release), ("--triton", triton)):
        if value is not None and RELEASE.fullmatch(value) is None:
            raise UsageError(f"{option} {value[:40]!r} is no version")
    path = ctx.catalog.recipe(engine)
    recipe = load_recipe(path)
    if release is not None and release != recipe.version:
        return open_judge(ctx, ctx.catalog.root, recipe.engine, release, triton)
    locked = {wheel.name: wheel.version for wheel in load_lock(lock_path(path)).wheels.image["arm64"]}
    return open_judge(ctx, ctx.catalog.root, recipe.engine, recipe.version, triton or locked.get("triton"))


def meant_shape(experts: int, width: int, dtype: str, block: str | None, *, per_channel: bool) -> Meant:
    """The parameters of a file of experts; raises UsageError for a type or a block that is none."""
    if dtype not in DTYPES:
        raise UsageError(f"--dtype {dtype[:40]!r} is none of {', '.join(DTYPES)}")
    found = BLOCK.fullmatch(block) if block else None
    if block and (found is None or dtype not in ("fp8_w8a8", "int8_w8a8")):
        raise UsageError(f"--block {block[:40]!r} is no block of {dtype}", hint="--dtype fp8_w8a8 --block 128x128")
    shape = {
        "E": experts,
        "N": width,
        "dtype": None if dtype == "bf16" else dtype,
        "block": [int(found[1]), int(found[2])] if found else None,
        "per_channel": per_channel,
        "down": False,
    }
    return Meant("moe", shape, SPELLED)
