"""Inside a build stage: the scan of what one RUN changed, from the root before it and the root after it.

    changed.py BEFORE AFTER > scan.json

Both roots are mounted from the same snapshots, so that a file that nobody touched has the same size, times and mode in
both, down to the nanosecond of its last change, which no program can set. Only the others are read. A binary that is
gone, or is none any more, is listed with the kind ``removed``.
"""

import argparse
import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from stat import S_ISREG
from typing import Any

REMOVED = "removed"
Identity = tuple[int, int, int, int]


def main() -> None:
    """``changed.py BEFORE AFTER``: the document on stdout."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    options = parser.parse_args()
    sys.stdout.write(scan_changed(options.before, options.after).to_json() + "\n")


def scan_changed(before: Path, after: Path) -> Any:  # noqa: ANN401 - the Scan of the scanner that lies beside us
    """The binaries that are new, changed or gone."""
    scanner = importlib.import_module("scan")
    old, new = dict(files(before)), dict(files(after))
    changed = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    found = []
    for name in changed:
        if name in new and scanner.is_binary(after / name):
            found.append(scanner.scan_file(after / name, name))
        elif name in old and scanner.is_binary(before / name):
            found.append(scanner.Binary(path=name, kind=REMOVED, size=0))
    return scanner.Scan(root=str(after), binaries=tuple(found))


def files(root: Path) -> Iterator[tuple[str, Identity]]:
    """Every regular file below a root by its relative path, with what tells whether it was touched."""
    folders = [str(root)]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                    continue
                found = entry.stat(follow_symlinks=False)
                if S_ISREG(found.st_mode):
                    identity = (found.st_size, found.st_mode, found.st_mtime_ns, found.st_ctime_ns)
                    yield os.path.relpath(entry.path, root), identity


if __name__ == "__main__":
    main()
