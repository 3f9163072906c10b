"""A result that was kept, read again: a benchmark, or the folder or bundle of a comparison or a matrix."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gb10 import __version__
from gb10.core.files import read_plain_file
from gb10.core.journal import head_of
from gb10.errors import UsageError
from gb10.serving.benchmark.bench_bundle import LARGEST, read_bundle
from gb10.serving.benchmark.comparability import different_settings
from gb10.serving.benchmark.compared import Compared, Unit, compare_launches
from gb10.serving.benchmark.launch_journal import JOURNAL
from gb10.serving.benchmark.launch_line import LaunchLine, Result, read_launch, result_of
from gb10.serving.benchmark.matrix import Done, read_matrix, rows_of
from gb10.serving.benchmark.pages import Page, html, markdown
from gb10.serving.benchmark.saved_serve import SavedServe, read_serve_file
from gb10.serving.stats.comparison import schedule

UNITS: Final[Mapping[str, Unit]] = {"launches": "launches", "passes": "passes"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedMatrix:
    """The rows of a matrix, and what its journal begins with."""

    head: Mapping[str, Any]
    done: tuple[Done, ...]


def read_result(path: Path, margin: float) -> SavedServe | Compared | SavedMatrix:
    """What a file or a folder has. Raises UsageError, and VerifyError for a bundle that was changed."""
    if path.suffix == ".zip":
        bundle = read_bundle(path)
        head, lines = bundle.head, list(bundle.launches)
    elif path.is_dir():
        content = read_plain_file(path / JOURNAL, LARGEST, "name a folder that bench compare or bench matrix made")
        first, *rest = content.decode("utf-8", "replace").splitlines() or [""]
        head, lines = head_of(first), [one for line in rest if (one := read_launch(line))]
    else:
        return read_serve_file(path)
    latest = {(one.name, one.number): one for one in lines}
    return _of_kind(path, head, list(latest.values()), margin)


def _of_kind(
    path: Path, head: Mapping[str, Any], lines: list[LaunchLine], margin: float
) -> SavedServe | Compared | SavedMatrix:
    names, served = head.get("names"), [one.serve for one in lines if one.serve]
    match head.get("kind"):
        case "compare" if isinstance(names, list) and len(names) == 2:
            # Each launch gets its block: as many as were planned for the last launch.
            order = schedule(max((one.number for one in lines), default=1) // 2 + 1)
            return compare_launches(
                [one.model_copy(update={"block": order[one.number][1]}) for one in lines],
                (str(names[0]), str(names[1])),
                margin=margin,
                unit=UNITS.get(str(head.get("unit")), "launches"),
            )
        case "matrix":
            rows = rows_of(read_matrix(json.dumps(head.get("matrix")), f"the matrix of {path}"))
            line_of = {one.name: one for one in lines}
            return SavedMatrix(head=head, done=tuple(Done(row=row, line=line_of.get(row.name)) for row in rows))
        case "serve" if served:
            return served[0]
    raise UsageError(
        f"{path} has no result to show", hint="a folder or bundle of bench compare or matrix, or a .json of serve"
    )


MOST: Final = 500
"""Results of a folder."""


def is_saved(a: str, b: str) -> bool:
    """Whether both sides are saved results. Raises UsageError when only one is."""
    found = [Path(text).is_dir() or (text.endswith(".json") and Path(text).is_file()) for text in (a, b)]
    if any(found) and not all(found):
        hint = "name two results, or two folders of them; ./build.py bench replay repeats a bundle against a server"
        raise UsageError("one side is a saved result, and the other is none", hint=hint)
    return all(found)


def saved_launches(a: str, b: str) -> list[LaunchLine]:
    """The launches of both sides by when they were measured, as one block. Raises UsageError."""
    sides = {"A": read_side(Path(a)), "B": read_side(Path(b))}
    first = [side[0].settings for side in sides.values()]
    different = different_settings(first[0], first[1])
    if different:
        raise UsageError("the two were measured differently", where="\n".join(different), hint="measure one again")
    ordered = sorted(
        ((one.started, name, one) for name, side in sides.items() for one in side), key=lambda found: found[:2]
    )
    return [_line(name, number, one) for number, (_, name, one) in enumerate(ordered)]


def read_side(path: Path) -> Sequence[SavedServe]:
    """The results of a side, each launch once. Raises UsageError."""
    paths = sorted(path.glob("*.json"))[: MOST + 1] if path.is_dir() else [path]
    if not 0 < len(paths) <= MOST:
        raise UsageError(f"{path} has {'no' if not paths else 'too many'} results", hint="bench serve URL --out FILE")
    found = [read_serve_file(one) for one in paths]
    several = next((one for one, served in zip(paths, found, strict=True) if len(served.lengths) > 1), None)
    if several:
        raise UsageError(
            f"{several} has several answer lengths, and a comparison is of one",
            hint="measure each into a file of its own: bench serve --tg N --out FILE",
        )
    boots = [one.boot for one in found]
    twice = next((boot for boot in boots if boots.count(boot) > 1), None)
    if twice:
        raise UsageError(
            f"{path} has {boots.count(twice)} results of the launch {twice!r}",
            hint="runs of one launch are no new launches: name each launch by bench serve --boot NAME",
        )
    return found


def _line(name: str, number: int, served: SavedServe) -> LaunchLine:
    result = result_of(served.verdict, "")
    why = "" if result is Result.STABLE else served.why
    return LaunchLine(
        kind="launch",
        name=name,
        block=0,
        number=number,
        result=result,
        why=why,
        cause="",
        seconds=0.0,
        facts={},
        serve=served,
    )


RESULT: Final = "result.json"
PAGE: Final = "page.html"
TABLE: Final = "table.md"
MADE: Final = f"measured by gb10 {__version__}"


def write_results(folder: Path, document: Mapping[str, object], page: Page) -> None:
    """Write them; raises UsageError."""
    texts = {RESULT: json.dumps(document, indent=1) + "\n", PAGE: html(page), TABLE: markdown(page)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"cannot write {folder}", where=error.strerror, hint="--out DIR names another folder"
        ) from error
