"""``patches``: check every patch against any release, without a compiler."""

import datetime
import sys
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from packaging.version import Version
from rich.table import Table

from gb10.cli.common import JsonOption, print_json, reported, verb_app, with_context
from gb10.cli.values import completer, patched_sources, patches
from gb10.cli.verb import print_table
from gb10.core.reporter import terminal
from gb10.errors import PatchError, UsageError
from gb10.image.context import Context
from gb10.image.lock.lockfile import load_recipe
from gb10.image.patches.hunks import DiffFate, adopt_diffs, series_files, series_troubles, write_series
from gb10.image.patches.maintain import new_patch
from gb10.image.patches.maintain import refresh as refreshed
from gb10.image.patches.release_files import Library, parse_version
from gb10.image.patches.series import Patch, load_series, sources
from gb10.image.patches.verdict import Row, find_patches, outcome_of, releases_in_words, troubles
from gb10.image.patches.verdict import status as status_of

TROUBLES = 20
"""Lines of an error."""
SHORT = {"not-applicable": "-"}
LEGEND = "-  not-applicable: the release is outside the patch's range"
STYLES = {
    "applies": "green",
    "not-applicable": "dim",
    "already-upstream": "yellow",
    "superseded": "yellow",
    "conflict": "bold red",
    "unknown-shape": "bold red",
}


def print_rows(ctx: Context, rows: Sequence[Row], idle: Collection[str] = ()) -> None:
    """A table per source (a line per release, a column per patch), then every reason once.

    ``idle`` are sources that are compiled only with ``--targets``.
    """
    console = terminal(ctx.env, stderr=False)
    for source in dict.fromkeys(row.source for row in rows):
        own = [row for row in rows if row.source == source]
        series = load_series(ctx.catalog.patches, source)
        ids = list(dict.fromkeys(verdict.patch.id for row in own for verdict in row.verdicts))
        table = Table(title=source, title_justify="left", box=None, pad_edge=False)
        table.add_column("release", no_wrap=True, min_width=max(len(str(row.version)) for row in own))
        for name in ids:
            table.add_column(name[:4], no_wrap=True)
        for row in own:
            table.add_row(str(row.version), *(_cell(row, name) for name in ids))
        print_table(ctx.env, table)
        if any(outcome_of(verdict) in SHORT for row in own for verdict in row.verdicts):
            print(LEGEND)
        for name in ids:
            ranges = dict.fromkeys(range_of(patch) for patch in series if patch.id == name)
            console.print(f"\n{name}  {' or '.join(ranges)}", style="bold", soft_wrap=True)
            for line in reasons(own, name, idle):
                console.print(f"  {line}", soft_wrap=True, highlight=False, markup=False)
        console.print()


def _cell(row: Row, name: str) -> str:
    verdict = next((verdict for verdict in row.verdicts if verdict.patch.id == name), None)
    if verdict is None:
        return ""
    outcome = outcome_of(verdict)
    return f"[{STYLES.get(outcome, 'bold red')}]{SHORT.get(outcome, outcome)}[/]"


def range_of(patch: Patch) -> str:
    """The releases that a patch is for, the lowest bound first."""
    return ",".join(map(str, sorted(patch.header.releases, key=lambda one: Version(one.version))))


def reasons(rows: Iterable[Row], name: str, idle: Collection[str] = ()) -> list[str]:
    """Each different outcome and reason of a patch, with the releases that have it."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for row in rows:
        for verdict in row.verdicts:
            if verdict.patch.id == name:
                vain = verdict.outcome == "applies" and row.source in idle and not verdict.patch.installable
                note = " (only with --targets: upstream's wheel is compiled already)" if vain else ""
                found.setdefault((outcome_of(verdict), note, verdict.why), []).append(str(row.version))
    return [f"{outcome} on {', '.join(versions)}{note}: {why}" for (outcome, note, why), versions in found.items()]


def rows_document(rows: Iterable[Row]) -> dict[str, object]:
    """The matrix as data, schema gb10/patches/v1."""
    return {
        "schema": "gb10/patches/v1",
        "cells": [
            {
                "source": row.source,
                "release": str(row.version),
                "pinned": row.pinned,
                "patch": verdict.patch.id,
                "file": verdict.patch.name,
                "outcome": verdict.outcome,
                "probe": verdict.probe.answer,
                "why": verdict.why,
                "sha256": verdict.patch.sha256,
            }
            for row in rows
            for verdict in row.verdicts
        ],
    }


def print_patches(patches: Sequence[Patch], *, as_json: bool) -> None:
    """The variants of a patch: record, trailers, text of each."""
    described = [_described(patch) for patch in patches]
    if as_json:
        print_json({"schema": "gb10/patch/v1", "variants": described})
        return
    for patch, fields in zip(patches, described, strict=True):
        for name, value in fields.items():
            print(f"{name:18} {', '.join(value) if isinstance(value, list) else ' '.join(str(value).split())}")
        print(f"\n{patch.text.decode()}")


def _described(patch: Patch) -> dict[str, object]:
    return {
        "patch": patch.place,
        "subject": patch.header.subject,
        "sha256": patch.sha256,
        **dict(patch.header.trailers),
        "defect": patch.record.defect,
        "fix": patch.record.fix,
        "proven": patch.record.proven,
        "files": [diff.path for diff in patch.diffs] + sorted(patch.files),
    }


app = verb_app(
    """Patches of sources: which release needs which patch, and whether it applies. Nothing is compiled or run.

\b
./build.py patches status                               # every source, every pinned release
./build.py patches status --source vllm --ref 0.32.0    # another release
./build.py patches status --source vllm --ref 0.33.0 --tree ~/vllm    # your own checkout
./build.py patches check                                # exit 6 when a patch or its range is wrong
./build.py patches show sglang/0001-jit-arch-suffix
./build.py patches refresh vllm/0001-… --tree ~/vllm    # merge the patch into a newer tree, print the diff
./build.py patches new vllm my-fix --ref 0.33.0 --tree ~/vllm
./build.py patches adopt ~/theirs --ref vllm=0.33.0 --write mine    # diffs of others, hunk by hunk

\b
applies           the release has the defect, and the patch applies
not-applicable    the release is outside the patch's range; the table shows -
already-upstream  the release has the fix; a build stops
superseded        nothing uses that code any more; a build stops
overdue           the release is outside the range but has the defect; `patches check` fails
conflict          the patch does not apply; a build stops
unknown-shape     the code looks different; a build stops
""",
    group=True,
)

PatchArgument = Annotated[
    str, typer.Argument(metavar="NAME", autocompletion=completer(patches), help="SOURCE/NNNN-slug, or NNNN-slug.")
]
SourceOption = Annotated[
    str | None,
    typer.Option(
        "--source",
        metavar="NAME",
        autocompletion=completer(patched_sources),
        help="Only this source: vllm, flashinfer, …",
    ),
]
RefOption = Annotated[
    list[str] | None, typer.Option("--ref", metavar="VERSION", help="A release. Repeatable. Default: the pinned ones.")
]
TreeOption = Annotated[
    Path | None, typer.Option("--tree", metavar="PATH", help="Your own copy: a directory, a wheel or a source archive.")
]


@app.command()
@with_context
def status(
    *,
    ctx: Context,
    source: SourceOption = None,
    ref: RefOption = None,
    tree: TreeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the table of patches and releases, with reasons.

    \b
    ./build.py patches status --source vllm

    The first run downloads the releases, which takes minutes. Later runs read them from the store: about a second each.
    """
    started = time.monotonic()
    rows = _rows(ctx, source, ref or [], tree)
    if as_json:
        print_json(rows_document(rows))
        return
    print_rows(ctx, rows, idle_sources(ctx))
    ctx.reporter.say(f"{releases_in_words(len(rows))} in {time.monotonic() - started:.1f} s")


@app.command()
@with_context
def check(
    *,
    ctx: Context,
    source: SourceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Exit 6 unless every patch applies to all releases of its range.

    \b
    ./build.py patches check --source vllm

    It also exits 6 when a range leaves out a release with the defect.
    """
    rows = _rows(ctx, source, [], None)
    found = troubles(rows)
    if found:
        raise PatchError(
            f"{len(found)} results are wrong",
            where="\n".join(found),
            hint="./build.py patches status shows all results",
        )
    ctx.reporter.say(
        f"{sum(len(row.verdicts) for row in rows)} results over {releases_in_words(len(rows))} are correct"
    )
    if as_json:
        print_json(rows_document(rows))


@app.command()
@with_context
def show(
    *,
    ctx: Context,
    name: PatchArgument,
    as_json: JsonOption = False,
) -> None:
    """Show what a patch is for, its range, sha256 and text.

    \b
    ./build.py patches show sglang/0001-jit-arch-suffix
    """
    print_patches(find_patches(ctx.catalog.patches, name), as_json=as_json)


@app.command()
@with_context
def refresh(
    *,
    ctx: Context,
    name: PatchArgument,
    tree: Annotated[Path, typer.Option("--tree", metavar="PATH", help="The tree that the patch no longer fits.")],
) -> None:
    """Merge a patch into a tree that it no longer fits; print the diff.

    \b
    ./build.py patches refresh vllm/0001-… --tree ~/vllm > new.patch

    This is a three-way merge. If the patch has several variants, the last one is merged.
    """
    sys.stdout.buffer.write(refreshed(library(ctx), find_patches(ctx.catalog.patches, name)[-1], tree))
    ctx.reporter.say("review the diff, then add it as a variant with its own X-Applies-To")


@app.command()
@with_context
def new(
    *,
    ctx: Context,
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", autocompletion=completer(patched_sources), help="vllm, flashinfer, …")
    ],
    slug: Annotated[str, typer.Argument(metavar="SLUG", help="A name of words with hyphens.")],
    ref: Annotated[str, typer.Option("--ref", metavar="VERSION", help="The release that you edited.")],
    tree: Annotated[Path, typer.Option("--tree", metavar="PATH", help="The edited tree.")],
    as_json: JsonOption = False,
) -> None:
    """Write a patch and its entry in the series from an edited tree.

    \b
    ./build.py patches new vllm my-fix --ref 0.33.0 --tree ~/vllm
    """
    today = datetime.datetime.now(tz=datetime.UTC).date()
    path = new_patch(library(ctx), source, slug, parse_version(ref), tree, today=today)
    print_json({"schema": "gb10/patch-new/v1", "path": str(path)}) if as_json else print(path)
    ctx.reporter.say("next, write the reason, the range and the probe; ./build.py patches check lists what is missing")


@app.command()
@with_context
def adopt(
    *,
    ctx: Context,
    place: Annotated[Path, typer.Argument(metavar="DIFF|DIR", help="A diff, or a folder of .patch and .diff files.")],
    ref: Annotated[
        list[str] | None,
        typer.Option("--ref", metavar="NAME=VERSION", help="The release that the diffs should fit. Repeatable."),
    ] = None,
    write: Annotated[
        Path | None,
        typer.Option("--write", metavar="DIR", help="Write the series there, in a folder for each source."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Try somebody's diffs on a release, hunk by hunk.

    \b
    ./build.py patches adopt pr.diff --ref vllm=0.33.0
    ./build.py patches adopt ~/their-patches --ref vllm=0.33.0 --ref flashinfer=0.7.2.post1 --write mine
    ./build.py patches adopt fix.diff --ref transformers=4.57.1    # a package that gb10 has no patches for

    Paths may have any prefix, for example that of installed packages. A folder is read in the order of its `series`,
    else by name; each diff meets what those before it left. Exit 6 when a hunk does not apply; what fits is
    written, for `image --patch mine/vllm`.

    \b
    applies           at exactly one place, no fuzz
    already-upstream  the release has these lines
    gone              the release does not have that code any more
    conflict          the code changed; --write puts the three-way result into conflicts/, for reading
    left-out          a file that nothing in an image reads
    """
    if not ref:
        raise UsageError("patches adopt needs a release", hint="add --ref SOURCE=VERSION, for example vllm=0.33.0")
    from gb10.cli.build.image_options import releases  # noqa: PLC0415 - planning, which no other command here needs

    refs = {source: parse_version(version) for source, version in releases(ref).items()}
    fates = adopt_diffs(library(ctx), place, refs)
    if write:
        write_series(series_files(fates, datetime.datetime.now(tz=datetime.UTC).date()), write)
    print_json(fates_document(fates)) if as_json else print_fates(fates)
    if write:
        count = sum(one.fits and bool(one.text) for one in fates)
        ctx.reporter.say(f"wrote {count} of {len(fates)} diffs to {write}")
    with reported(as_json):
        if found := series_troubles(fates):
            by_release = any(fate.hunks and not fate.fits for fate in fates)
            raise PatchError(
                "1 part does not apply" if len(found) == 1 else f"{len(found)} parts do not apply",
                where="\n".join(found[:TROUBLES]),
                hint="make the diff again for this release by hand; conflicts/ of --write has both sides"
                if by_release
                else "mend or leave out what is named here; the release was not the reason",
            )


def print_fates(fates: Sequence[DiffFate]) -> None:
    """A line for each diff, then one for each hunk."""
    for fate in fates:
        print(f"{fate.name}  {fate.source} {fate.version}".rstrip() + (f": {fate.problem}" if fate.problem else ""))
        for given, place in fate.located.items():
            print(f"  {given} is {place}: no other file of the release has this name")
        for one in fate.hunks:
            where = f"{one.path}:{one.line}" if one.line else one.path
            merge = "; a three-way merge is clean" if one.clean else ""
            print(f"  {one.outcome:17} {where}{f'  {one.why}' if one.why else ''}{merge}")


def fates_document(fates: Sequence[DiffFate]) -> dict[str, object]:
    """The same as data, schema gb10/patches-adopt/v1."""
    return {
        "schema": "gb10/patches-adopt/v1",
        "diffs": [
            {
                "name": fate.name,
                "title": fate.title,
                "source": fate.source,
                "version": fate.version,
                "fits": fate.fits,
                "problem": fate.problem,
                "located": dict(fate.located),
                "hunks": [asdict(one) | {"three_way": one.three_way.decode("utf-8", "replace")} for one in fate.hunks],
            }
            for fate in fates
        ],
    }


def _rows(ctx: Context, source: str | None, refs: list[str], tree: Path | None) -> tuple[Row, ...]:
    if (refs or tree) and source is None:
        raise UsageError("--ref and --tree need --source", hint="add --source vllm")
    if tree is not None and len(refs) != 1:
        raise UsageError("--tree needs one --ref: the release of that tree", hint="add --ref VERSION")
    if tree is not None and tree.exists() and not tree.is_dir() and not tree.is_file():
        raise UsageError(f"{tree} is a special file", hint="give a directory, a wheel or a source archive (.tar.gz)")
    versions = [parse_version(text) for text in refs]
    wanted = (
        [source]
        if source
        else [name for name in sources(ctx.catalog.patches) if load_series(ctx.catalog.patches, name)]
    )
    return tuple(row for name in wanted for row in status_of(library(ctx), name, versions, tree))


def idle_sources(ctx: Context) -> set[str]:
    """The sources that no recipe compiles by itself: what a wheel lacks of their patches needs ``--targets``."""
    recipes = [load_recipe(ctx.catalog.recipe(engine)) for engine in ctx.catalog.engines()]
    wheels = [wheel for recipe in recipes for wheel in recipe.wheels.values() if wheel.method == "source"]
    return {wheel.source for wheel in wheels} - {wheel.source for wheel in wheels if wheel.targets}


def library(ctx: Context) -> Library:
    """The part of a context that reads and fetches releases."""
    return Library(root=ctx.catalog.patches, store=ctx.store, env=ctx.env, reporter=ctx.reporter)
