"""A bundle repeated: the same load on another server or machine, held against what the bundle measured."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from gb10.errors import UsageError
from gb10.serving.trial.bench_bundle import Bundle
from gb10.serving.trial.compared import Compared, Unit, compare_launches
from gb10.serving.trial.launch_line import LaunchLine, Result
from gb10.serving.trial.matrix import read_matrix, rows_of

NAMES = ("the bundle", "here")


def sides_of(bundle: Bundle) -> dict[str, list[LaunchLine]]:
    """What a bundle measured, by name: A and B, the rows of a matrix, or one endpoint. Only stable launches. Pure."""
    found: dict[str, list[LaunchLine]] = {}
    for one in bundle.launches:
        if one.result is Result.STABLE:
            found.setdefault(one.name, []).append(one)
    return found


def chosen_side(bundle: Bundle, wanted: str | None) -> tuple[str, list[LaunchLine]]:
    """The side to repeat; without a wish the only one. Raises UsageError."""
    found = sides_of(bundle)
    if wanted is None and len(found) == 1:
        return next(iter(found.items()))
    if wanted in found:
        return str(wanted), found[str(wanted)]
    names = ", ".join(found) or "none"
    what = f"the bundle has no stable launch of {wanted!r}" if wanted else f"the bundle has {len(found)} sides"
    raise UsageError(what, where=names, hint="choose one: --side NAME")


def compare_with_bundle(
    before: Sequence[LaunchLine], here: Sequence[LaunchLine], *, margin: float, unit: Unit
) -> Compared:
    """The launches here against those of the bundle: two groups, since they did not run in turn."""
    lines = [_line(one, "A", number) for number, one in enumerate(before)]
    lines += [_line(one, "B", len(before) + number) for number, one in enumerate(here)]
    return compare_launches(lines, NAMES, margin=margin, unit=unit)


def _line(one: LaunchLine, side: str, number: int) -> LaunchLine:
    return one.model_copy(update={"name": side, "block": 0, "number": number})


def settings_of_side(head: Mapping[str, Any], side: str) -> Mapping[str, str]:
    """What a row of a matrix sets; none for others. Raises UsageError. Pure."""
    if head.get("kind") != "matrix":
        return {}
    rows = rows_of(read_matrix(json.dumps(head.get("matrix")), "the matrix of the bundle"))
    return next((row.settings for row in rows if row.name == side), {})


def text_of_side(head: Mapping[str, Any], side: str) -> str:
    """What a side of a comparison sets, as it was typed; empty for others. Pure."""
    names = head.get("names")
    if head.get("kind") != "compare" or not isinstance(names, list) or len(names) != 2:
        return ""
    return str(names[0 if side == "A" else 1])
