"""What a matrix left in its folder: shared by the tests with real engines."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gb10.serving.benchmark.launch_journal import JOURNAL


def rows_of(folder: Path) -> Mapping[str, Any]:
    """The rows of a result, by name."""
    found = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    return {row["name"]: row for row in found["rows"]}


def measured(folder: Path) -> int:
    """How many rows were measured so far."""
    journal = folder / JOURNAL
    return journal.read_text(encoding="utf-8").count('{"kind": "launch"') if journal.exists() else 0
