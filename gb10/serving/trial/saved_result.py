"""A result that was kept, read again: a benchmark, or the folder or bundle of a comparison or a matrix."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gb10.core.journal import head_of
from gb10.core.plain_file import read_plain_file
from gb10.errors import UsageError
from gb10.serving.stats.launches import schedule
from gb10.serving.trial.axes import read_matrix, rows_of
from gb10.serving.trial.bench_bundle import LARGEST, read_bundle
from gb10.serving.trial.compared import Compared, Unit, compared
from gb10.serving.trial.kept_runs import JOURNAL
from gb10.serving.trial.launch_line import LaunchLine, read_launch
from gb10.serving.trial.matrix_run import Done
from gb10.serving.trial.saved_serve import SavedServe, read_serve_file

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
            return compared(
                blocked(lines),
                (str(names[0]), str(names[1])),
                margin=margin,
                unit=UNITS.get(str(head.get("unit")), "launches"),
            )
        case "matrix":
            rows = rows_of(read_matrix(json.dumps(head.get("matrix")), f"the matrix of {path}"))
            known = {one.name: one for one in lines}
            return SavedMatrix(head=head, done=tuple(Done(row=row, line=known.get(row.name)) for row in rows))
        case "serve" if served:
            return served[0]
    raise UsageError(
        f"{path} has no result to show", hint="a folder or bundle of bench compare or matrix, or a .json of serve"
    )


def blocked(lines: list[LaunchLine]) -> list[LaunchLine]:
    """The launches of a comparison with their blocks, as many as were planned for the last of them."""
    order = schedule(max((one.number for one in lines), default=1) // 2 + 1)
    return [one.model_copy(update={"block": order[one.number][1]}) for one in lines if one.number < len(order)]
