"""Folders as inputs: a list of entries that is laid out in a test's own folder, as far as the file system takes it."""

import contextlib
import json
import os
import random
from pathlib import Path
from typing import Final

from tests.fuzz.mutate import NAMES

KINDS: Final = ("file", "file", "executable", "link", "folder", "fifo", "sparse", "locked")
CONTENTS: Final = ("#!/bin/sh\ntrue\n", "\r\n", "what: x\n", "a: &a [*a]", "", "x" * 5000)
TARGETS: Final = ("run.sh", "/etc/passwd", "../..", ".", "m", "a/b", "x" * 300)
LONGEST: Final = 300
"""Characters of a name: a part may be too long, a whole path is not, for the harness's own sake."""
SPARSE: Final = 80 << 20


def some_folder(rng: random.Random) -> bytes:
    """A run.sh, mostly, and a few odd entries."""
    entries = [["file", "run.sh", CONTENTS[0]]] if rng.randrange(5) else []
    for name in rng.choices((*NAMES, "mod.yaml", "mod.yaml"), k=rng.randrange(6)):
        kind = rng.choice(KINDS)
        entries.append([kind, name[:LONGEST], rng.choice(TARGETS if kind == "link" else CONTENTS)])
    return json.dumps(entries).encode()


def build_folder(data: bytes, root: Path) -> None:
    """Lay the entries out below ``root``; what the file system refuses, or what would lie outside, is left out."""
    root.mkdir()
    for kind, name, content in json.loads(data):
        path = Path(os.path.normpath(root / name.lstrip("/")))
        if not path.is_relative_to(root) or path == root:
            continue
        with contextlib.suppress(OSError, ValueError):
            path.parent.mkdir(parents=True, exist_ok=True)
            _lay(kind, path, content)


def _lay(kind: str, path: Path, content: str) -> None:
    if path.is_symlink() or path.exists():
        return
    match kind:
        case "link":
            path.symlink_to(content)
        case "folder":
            path.mkdir()
        case "fifo":
            os.mkfifo(path)
        case "sparse":
            path.touch()
            os.truncate(path, SPARSE)
        case _:
            path.write_text(content, encoding="utf-8")
            path.chmod({"executable": 0o755, "locked": 0}.get(kind, 0o644))
