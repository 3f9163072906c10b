"""How ``moe`` prints: lines for people, a document for scripts."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from gb10.core.checked import NotChecked, documents_of
from gb10.core.files import read_plain_file
from gb10.core.printing import printable
from gb10.errors import UsageError, VerifyError
from gb10.image.context import Context
from gb10.image.lock.lockfile import load_lock, load_recipe, lock_path
from gb10.image.moe.asked_names import AskedName, Comparison, asked_names
from gb10.image.moe.compiled_rows import Compiled
from gb10.image.moe.file_verdict import FileVerdict, TunedRow, differing_verdicts
from gb10.image.moe.release_lookups import Judge, open_judge
from gb10.image.moe.tuned_name import SPELLED, TITLES, TunedName
from gb10.image.recipe.arch import SHARED_MEMORY

TAKEN = {"cuda": "the engine's CUDA kernel takes these, not Triton", "default": "the engine's default"}
FIELDS = {"BLOCK_SIZE_M": "M", "BLOCK_SIZE_N": "N", "BLOCK_SIZE_K": "K", "GROUP_SIZE_M": "group"}


def as_document(
    judge: Judge,
    verdicts: Sequence[FileVerdict],
    compiled: Sequence[Compiled],
    names: Sequence[Comparison] = (),
    unchecked: Sequence[NotChecked] = (),
) -> dict[str, Any]:
    """All verdicts as data, schema gb10/moe-check/v1."""
    return {
        "schema": "gb10/moe-check/v1",
        "engine": judge.engine,
        "version": judge.version,
        "triton": judge.triton or None,
        "limit": SHARED_MEMORY,
        "files": [{**asdict(verdict), "good": verdict.good} for verdict in verdicts],
        "compiled": [{**asdict(row), "found": row.found.model_dump()} for row in compiled],
        "asked": [{**asdict(one), "good": one.good} for one in names],
        "unchecked": documents_of(unchecked),
    }


def print_verdicts(judge: Judge, verdicts: Sequence[FileVerdict], *, rows: bool) -> None:
    """Each file: the verdict, the reasons, and its rows; all rows with ``rows``, else those with a problem."""
    triton = f", Triton {judge.triton}" if judge.triton else ""
    print(f"{judge.engine} {judge.version}{triton}")
    for verdict in verdicts:
        print(f"\n{verdict.path}")
        family = f" ({TITLES[verdict.family]})" if verdict.family else ""
        print(f"  {verdict.verdict}{family}")
        stops = [f"the engine stops: {verdict.told}"] if verdict.verdict == "raises" else []
        for line in (*stops, *verdict.reasons, *verdict.remarks):
            print(f"  {line}")
        for row in _merged(verdict.rows):
            if rows or row.problems:
                print(f"  {_row(row)}")
                for line in (*row.problems, *row.remarks):
                    print(f"      {line}")
        print(f"  {_summary(verdict.rows)}" if verdict.rows else "", end="\n" if verdict.rows else "")


def print_compiled(compiled: Sequence[Compiled]) -> None:
    """Each row as compiled, the first GEMM and the second; a file's name once."""
    path = None
    for row in compiled:
        if row.path != path:
            print(f"\n{row.path}, compiled")
        path = row.path
        print(f"  batch {row.first}: {_tile(row.config)}")
        for kernel in row.found.kernels:
            spills = f", {kernel.spilled:,} bytes spilled" if kernel.spilled else ""
            stack = f", {kernel.stack} bytes of stack" if kernel.stack else ""
            mma = ", ".join(kernel.mma) or "no matrix instruction"
            print(f"      {kernel.shared:,} bytes, {kernel.registers} registers{stack}{spills}, {mma}")
        if row.found.problem:
            print(f"      {row.found.problem}")


LARGEST_LOG = 256 << 20


def names_in_log(log: Path) -> tuple[AskedName, ...]:
    """The names that a log asks for; raises UsageError for what is no file, or too large a one."""
    text = read_plain_file(log, LARGEST_LOG, "give the part of the server's start")
    return asked_names(text.decode("utf-8", "replace").splitlines())


def print_names(names: Sequence[Comparison]) -> None:
    """Each name that the log asks for, and the nearest files."""
    for one in names:
        times = f", {one.asked.count} times" if one.asked.count > 1 else ""
        print()
        print(printable(f"the log asks for {one.asked.path} ({one.family}; line {one.asked.line}{times})"))
        if one.asked.outcome == "used":
            print("  used")
        elif one.there:
            print(printable(f"  not found then; {one.there} has the name: was it mounted there?"))
        else:
            print("  not found, and no file that is here has this name")
            for line in (*one.differs, one.advice):
                print(printable(f"  {line}") if line else "", end="\n" if line else "")


def refuse_names(names: Sequence[Comparison]) -> None:
    """Raise VerifyError for a name that the engine asked for, and no file has."""
    lost = [one for one in names if not one.good]
    if lost:
        raise VerifyError(
            f"the engine asked for {len(lost)} name{'s' * (len(lost) > 1)} that no file has",
            where="\n".join(printable("; ".join((one.asked.name, *one.differs[:1]))) for one in lost[:20]),
            hint="\n".join(dict.fromkeys(one.advice for one in lost if one.advice)) or "moe tune makes such a file",
        )


def _merged(rows: Iterable[TunedRow]) -> list[TunedRow]:
    """The rows, with neighbours that Triton does not get as one."""
    found: list[TunedRow] = []
    for row in rows:
        if found and row.use in TAKEN and row.use == found[-1].use:
            found[-1] = replace(found[-1], last=row.last)
        else:
            found.append(row)
    return found


def _row(row: TunedRow) -> str:
    batch = f"batch {row.first}" if row.first == row.last else f"batch {row.first} to {row.last}"
    if row.use in TAKEN:
        return f"{batch}: {TAKEN[row.use]}"
    if row.use == "raises":
        return f"{batch}: {row.config}"
    shared = f", {row.shared:,} bytes" if row.shared is not None else ""
    return f"{batch}: {_tile(row.config)}{shared}"


def _tile(config: object) -> str:
    if not isinstance(config, Mapping):
        return repr(config)
    return " ".join(f"{FIELDS.get(name, name)}={value}" for name, value in config.items())


def _summary(rows: Sequence[TunedRow]) -> str:
    used = [row for row in rows if row.use == "triton"]
    most = max((row.shared for row in used if row.shared is not None), default=None)
    bad = sum(bool(row.problems) for row in rows)
    skipped = sum(row.last - row.first + 1 for row in rows if row.use == "cuda")
    parts = [f"{len(used)} rows for Triton"]
    parts += [f"at most {most:,} of {SHARED_MEMORY:,} bytes of shared memory"] if most is not None else []
    parts += [f"{skipped} batch sizes not used by Triton"] if skipped else []
    return "; ".join((*parts, f"{bad} rows with a problem"))


def refuse(judge: Judge, verdicts: Sequence[FileVerdict], compiled: Sequence[Compiled] = ()) -> None:
    """Raise VerifyError when a file is not read, stops the engine or has a bad row; also when the rules differ."""
    broken = [row for row in compiled if row.found.problem]
    if broken:
        raise VerifyError(
            f"{len(broken)} of {len(compiled)} rows do not run on a GB10",
            where="\n".join(f"{row.path}, batch {row.first}: {row.found.problem}" for row in broken[:20]),
        )
    differing = differing_verdicts(verdicts)
    if differing:
        path, (theirs, ours) = next(iter(differing.items()))
        raise VerifyError(
            f"gb10's rules say {ours!r} of a file, {judge.engine} {judge.version} says {theirs!r}",
            where=path,
            hint="the engine is right; please report the file",
        )
    bad = [verdict for verdict in verdicts if not verdict.good]
    if bad:
        raise VerifyError(
            f"{len(bad)} of {len(verdicts)} tuned files will not serve on a GB10 with {judge.engine} {judge.version}",
            where="\n".join(f"{verdict.path}: {_why(verdict)}" for verdict in bad[:20]),
            hint="correct or remove them; docs/moe.md has the traps",
        )


def _why(verdict: FileVerdict) -> str:
    problems = [problem for row in verdict.rows for problem in row.problems]
    return "; ".join((*verdict.reasons, *problems)[:1]) or verdict.told


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


def judge_for_release(ctx: Context, engine: str, release: str | None, triton: str | None) -> Judge:
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


def shape_from_options(experts: int, width: int, dtype: str, block: str | None, *, per_channel: bool) -> TunedName:
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
    return TunedName("moe", shape, SPELLED)
