"""``bench show``: a kept result as a table, a page or a forum's table."""

from pathlib import Path
from typing import Annotated

import typer

from gb10.cli.common import JsonOption, print_json, with_context
from gb10.cli.machine.bench_compare import MarginOption
from gb10.cli.machine.bench_results import print_compared, print_matrix, print_page
from gb10.errors import UsageError
from gb10.image.context import Context
from gb10.serving.benchmark.compared import Compared
from gb10.serving.benchmark.matrix import document
from gb10.serving.benchmark.pages import Page, compare_page, html, markdown, matrix_page, serve_page
from gb10.serving.benchmark.published import published
from gb10.serving.benchmark.saved_results import MADE, SavedMatrix, read_result
from gb10.serving.benchmark.saved_serve import SavedServe

ResultArgument = Annotated[
    Path, typer.Argument(metavar="RESULT", help="A .json of bench serve; a folder or a bundle of compare or matrix.")
]
HtmlOption = Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write one HTML page with plots.")]
ForumOption = Annotated[bool, typer.Option("--markdown", help="Print tables for a forum or an issue.")]


@with_context
def show(
    *,
    result: ResultArgument,
    ctx: Context,
    html_file: HtmlOption = None,
    forum: ForumOption = False,
    margin: MarginOption = 2.0,
    as_json: JsonOption = False,
) -> None:
    """Print a kept result again, as a table or a page.

    \b
    ./build.py bench show result.json --html page.html
    ./build.py bench show gb10-matrix-20261101-120000 --markdown
    ./build.py bench show bundle.zip --json

    What others published for the model on a DGX Spark stands beside the figures, with its source.
    """
    found = read_result(result, margin / 100)
    page = _page(found)
    if html_file is not None:
        _write(html_file, html(page))
    if as_json:
        print_json(_document(found, result))
    elif forum:
        print(markdown(page), end="")
    elif isinstance(found, Compared):
        print_compared(ctx, found)
    elif isinstance(found, SavedMatrix):
        print_matrix(ctx, found.done)
    else:
        print_page(ctx, page)


def _page(found: SavedServe | Compared | SavedMatrix) -> Page:
    if isinstance(found, Compared):
        return compare_page(found, MADE)
    if isinstance(found, SavedServe):
        return serve_page(found, published(found.model), MADE)
    model = next((one.line.serve.model for one in found.done if one.line and one.line.serve), "")
    return matrix_page(found.done, found.head, published(model) if model else (), MADE)


def _document(found: SavedServe | Compared | SavedMatrix, path: Path) -> object:
    if isinstance(found, Compared):
        return found.document()
    if isinstance(found, SavedMatrix):
        return document(found.done, {name: found.head[name] for name in found.head if name not in ("kind", "identity")})
    return found.model_dump(mode="json", by_alias=True) | {"file": str(path)}


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path}", where=error.strerror, hint="choose another file for --html") from error
