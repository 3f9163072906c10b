"""The documents that these processes read and write."""

import re
from collections.abc import Iterable
from typing import Any

Request = dict[str, Any]
"""What the process is asked, as JSON: ``explain.engine_choice`` and ``plan.rehearsing`` write it."""
Row = dict[str, Any]
"""A layer and its kernel, or a compiled kernel, as JSON."""
NUMBER = re.compile(r"(?<=\.)\d+(?=\.|$)")


def merged(layers: Iterable[tuple[str, Row | None]]) -> list[Row]:
    """One row, with a count, for layers whose names differ by numbers alone and that are equal otherwise."""
    found: dict[str, Row] = {}
    for name, row in layers:
        if row is not None:
            pattern = NUMBER.sub("*", name)
            kept = found.setdefault(repr((pattern, sorted(row.items(), key=str))), {"name": pattern, "count": 0, **row})
            kept["count"] += 1
    return list(found.values())
