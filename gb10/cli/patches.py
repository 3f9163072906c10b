"""``patches``: hold every patch against any release in seconds, without a compiler."""

import datetime
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from gb10.cli.common import JsonOption, QuietOption, VerboseOption, print_json, verb_app, workshop
from gb10.cli.patches_show import print_patches, print_rows, rows_document
from gb10.errors import PatchError, UsageError
from gb10.patches.maintain import new_patch
from gb10.patches.maintain import refresh as refreshed
from gb10.patches.release_files import parse_version
from gb10.patches.series import load_series, sources
from gb10.patches.status import Row, find_patches, series_root, troubles
from gb10.patches.status import status as status_of
from gb10.workshop import Workshop

app = verb_app(
    """The changes to sources: which release needs which patch, and whether it applies. Nothing is compiled or run.

\b
./build.py patches status                               every source over its pinned releases
./build.py patches status --source vllm --ref 0.32.1    a release that nobody pinned
./build.py patches status --source vllm --ref 0.33.0 --tree ~/vllm    your own checkout
./build.py patches check                                exit 6 when a patch drifted or a range is wrong
./build.py patches show sglang/0001-jit-arch-suffix
./build.py patches refresh vllm/0001-… --tree ~/vllm    the patch for a tree it no longer fits, as a diff
./build.py patches new vllm my-fix --ref 0.33.0 --tree ~/vllm

applies: the defect is there and the patch fits · "-": outside its releases · upstream: fixed there · superseded:
nothing reaches that code any more · NEEDED: outside its releases, and needed · CONFLICT, UNKNOWN: a build stops.
""",
    group=True,
)

SourceOption = Annotated[str | None, typer.Option("--source", help="One source: vllm, sglang, flashinfer, …")]
RefOption = Annotated[list[str] | None, typer.Option("--ref", help="A release; repeatable. Default: the pinned ones.")]
TreeOption = Annotated[Path | None, typer.Option("--tree", help="A directory, wheel or source archive of your own.")]


@app.command()
def status(
    *,
    source: SourceOption = None,
    ref: RefOption = None,
    tree: TreeOption = None,
    as_json: JsonOption = False,
    verbose: VerboseOption = 0,
    quiet: QuietOption = False,
) -> None:
    """The matrix patch x release, with reasons."""
    shop = workshop(verbose, quiet)
    started = time.monotonic()
    rows = _rows(shop, source, ref or [], tree)
    if as_json:
        print_json(rows_document(rows))
        return
    print_rows(shop, rows)
    shop.talk.say(f"{len(rows)} releases in {time.monotonic() - started:.1f} s")


@app.command()
def check(*, source: SourceOption = None, verbose: VerboseOption = 0, quiet: QuietOption = False) -> None:
    """Exit 6 unless every patch does its work on every pinned release of its range, and no range is too small."""
    shop = workshop(verbose, quiet)
    rows = _rows(shop, source, [], None)
    found = troubles(rows)
    if found:
        raise PatchError(
            f"{len(found)} cells of the matrix are wrong",
            where="\n".join(found),
            hint="./build.py patches status shows all of it",
        )
    shop.talk.say(f"{sum(len(row.verdicts) for row in rows)} cells over {len(rows)} releases are right")


@app.command()
def show(
    *, name: Annotated[str, typer.Argument(help="SOURCE/NNNN-slug, or NNNN-slug.")], as_json: JsonOption = False
) -> None:
    """What a patch is for, where it applies, its sha256 and its text."""
    shop = workshop()
    print_patches(find_patches(shop, name), as_json=as_json)


@app.command()
def refresh(
    *,
    name: Annotated[str, typer.Argument(help="SOURCE/NNNN-slug, or NNNN-slug.")],
    tree: Annotated[Path, typer.Option("--tree", help="The tree that it no longer fits.")],
    verbose: VerboseOption = 0,
    quiet: QuietOption = False,
) -> None:
    """Print the patch (of variants the last) for a tree that it no longer fits: a three-way merge, never a guess."""
    shop = workshop(verbose, quiet)
    sys.stdout.buffer.write(refreshed(shop, find_patches(shop, name)[-1], tree))
    shop.talk.say("read it, then keep it as a variant with an X-Applies-To of its own")


@app.command()
def new(
    *,
    source: Annotated[str, typer.Argument(help="vllm, sglang, flashinfer, …")],
    slug: Annotated[str, typer.Argument(help="What it does, in words with hyphens.")],
    ref: Annotated[str, typer.Option("--ref", help="The release that was edited.")],
    tree: Annotated[Path, typer.Option("--tree", help="The edited tree.")],
) -> None:
    """Write a patch, its record and its line of the series from an edited tree; print its path."""
    shop = workshop()
    today = datetime.datetime.now(tz=datetime.UTC).date()
    print(new_patch(shop, source, slug, parse_version(ref), tree, today=today))
    shop.talk.say("now write why, the range and the probe; ./build.py patches check tells what is missing")


def _rows(shop: Workshop, source: str | None, refs: list[str], tree: Path | None) -> tuple[Row, ...]:
    if (refs or tree) and source is None:
        raise UsageError("--ref and --tree need to know whose release it is", hint="add --source vllm")
    if tree is not None and len(refs) != 1:
        raise UsageError("--tree needs the one release that it stands for", hint="add --ref VERSION")
    versions = [parse_version(text) for text in refs]
    wanted = (
        [source] if source else [name for name in sources(series_root(shop)) if load_series(series_root(shop), name)]
    )
    return tuple(row for name in wanted for row in status_of(shop, name, versions, tree))
