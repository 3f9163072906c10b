"""How the results of launches are given: a table and sentences for people, files, a document, an exit code."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from gb10.cli.common import print_json, reported
from gb10.cli.verb import print_table
from gb10.errors import VerifyError
from gb10.image.context import Context
from gb10.models.registries.recipe_file import find_recipe
from gb10.serving.benchmark.bench_bundle import BUNDLE, write_bundle
from gb10.serving.benchmark.compared import Compared
from gb10.serving.benchmark.launch_journal import JOURNAL
from gb10.serving.benchmark.matrix import Done, counts, document
from gb10.serving.benchmark.pages import (
    COMPARE_HEAD,
    Page,
    compare_page,
    head_of,
    matrix_page,
    table_row,
    table_rows,
    why,
)
from gb10.serving.benchmark.published import published
from gb10.serving.benchmark.saved_results import MADE, write_results
from gb10.serving.load_generator.benchy import Book


def keep_bundle(ctx: Context, folder: Path, book: Book, recipe: str | None) -> None:
    """The bundle of a folder's journal. Raises UsageError."""
    journal = (folder / JOURNAL).read_text(encoding="utf-8")
    text = find_recipe(recipe).path.read_text(encoding="utf-8") if recipe else None
    found = write_bundle(folder / BUNDLE, journal, book, text)
    ctx.reporter.say(f"{folder / BUNDLE}: repeat it elsewhere by bench replay; sha256 {found}")


def give_compared(ctx: Context, found: Compared, folder: Path | None, *, as_json: bool) -> None:
    """Print a comparison and keep it. Raises VerifyError when a side's answers are bad."""
    document = found.document()
    if folder is not None:
        write_results(folder, document, compare_page(found, MADE))
    if as_json:
        print_json(document)
    else:
        print_compared(ctx, found)
    with reported(as_json):
        if found.garbage:
            raise VerifyError(found.garbage, hint="docs/guard.md says what each verdict means; its speed means nothing")


def print_compared(ctx: Context, found: Compared) -> None:
    """A line for each figure, what speaks against them, the verdict."""
    for side, name in zip("AB", found.names, strict=True):
        print(f"{side}: {name or 'unchanged'}, {len(found.of(side))} {found.unit}")
    table = Table(box=None, pad_edge=False)
    for name in COMPARE_HEAD:
        table.add_column(name, no_wrap=True, justify="left" if name in ("figure", "verdict") else "right")
    for row in found.rows:
        table.add_row(*table_row(row))
    print_table(ctx.env, table, least=110)
    if found.answers is not None:
        print(found.answers.words)
    for doubt in found.doubts:
        print(f"doubt: {doubt}")
    print(f"verdict: {found.verdict}")


def give_matrix(ctx: Context, done: Sequence[Done], head: Mapping[str, Any], folder: Path, *, as_json: bool) -> None:
    """Print a matrix and keep it. Raises VerifyError when no row is stable."""
    made = document(done, head)
    model = next((one.line.serve.model for one in done if one.line and one.line.serve), "")
    write_results(folder, made, matrix_page(done, head, published(model) if model else (), MADE))
    if as_json:
        print_json(made)
    else:
        print_matrix(ctx, done)
    with reported(as_json):
        if not made["counts"]["STABLE"]:
            raise VerifyError("no row is stable", where=why(done[0]) if done else None, hint=f"logs: {folder / 'logs'}")


def print_matrix(ctx: Context, done: Sequence[Done]) -> None:
    """A line for each row, and how many came out how."""
    table = Table(box=None, pad_edge=False)
    for name in head_of(done):
        table.add_column(name, no_wrap=name != "why", justify="right" if name.startswith("tok/s") else "left")
    for row in table_rows(done):
        table.add_row(*row)
    print_table(ctx.env, table, least=120)
    print(", ".join(f"{count} {name}" for name, count in counts(done).items() if count))


def print_page(ctx: Context, page: Page) -> None:
    """The tables and lines of a page; what it folds is left out."""
    print(f"{page.title}: {page.verdict}")
    for section in (one for one in page.sections if not one.folded):
        print(f"\n{section.title}")
        table = Table(box=None, pad_edge=False)
        for at, name in enumerate(section.head):
            table.add_column(name, justify="right" if at in section.numbers else "left")
        for row in section.rows:
            table.add_row(*row)
        if section.rows:
            print_table(ctx.env, table, least=120)
        for line in section.lines:
            print(line)
