"""A journal: lines of JSON that are appended and never rewritten, so that a killed run loses at most its last line."""

import json
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import Final

from gb10.core.files import read_plain_file
from gb10.errors import UsageError

LARGEST: Final = 1 << 30


class Journal:
    """The lines of one job. The first one names it: ``head`` has its ``identity``. ``lines`` are those after it."""

    def __init__(self, path: Path, head: Mapping[str, object]) -> None:
        """Open it, or begin it. Raises UsageError for a journal of another job."""
        self.path, self._lock = path, Lock()
        text = read_plain_file(path, LARGEST).decode("utf-8", "replace") if path.exists() else ""
        first, *self.lines = text.splitlines() or [""]
        if text and head_of(first).get("identity") != head["identity"]:
            raise UsageError(f"{path} belongs to another job", hint="name another directory, or remove that file")
        path.parent.mkdir(parents=True, exist_ok=True)
        if not text:
            self.append_object(head)
        elif not text.endswith("\n"):  # a killed run left half a line
            self.append("")

    def append(self, line: str) -> None:
        """Keep a line; safe in several threads."""
        with self._lock, self.path.open("a", encoding="utf-8") as out:
            out.write(f"{line}\n")
            out.flush()

    def append_object(self, found: Mapping[str, object]) -> None:
        """Keep an object as a line."""
        self.append(json.dumps(dict(found)))


def head_of(line: str) -> dict[str, object]:
    """The first line of a journal; empty for one that is none."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
