"""Inside a build stage: the scan of what one RUN changed, from the root before it and the root after it.

    changed.py BEFORE AFTER > scan.json

Both roots are mounts of the same snapshots. A file that nobody changed has the same size, times and mode in both, down
to the nanosecond of its last change, which no program can set; only other files are read. A binary that is gone, or is
no longer one, is listed with the kind ``removed``.
"""

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from gb10.inside.scan import Binary, Scan, is_binary, regular_files, scan_file

REMOVED = "removed"
Identity = tuple[int, int, int, int]


def main() -> None:
    """``changed.py BEFORE AFTER``: the document on stdout."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    options = parser.parse_args()
    sys.stdout.write(scan_changed(options.before, options.after).to_json() + "\n")


def scan_changed(before: Path, after: Path) -> Scan:
    """The binaries that are new, changed or gone."""
    old, new = dict(files(before)), dict(files(after))
    changed = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    found = []
    for name in changed:
        if name in new and is_binary(after / name):
            found.append(scan_file(after / name, name))
        elif name in old and is_binary(before / name):
            found.append(Binary(path=name, kind=REMOVED, size=0))
    return Scan(root=str(after), binaries=tuple(found))


def files(root: Path) -> Iterator[tuple[str, Identity | None]]:
    """Every regular file below a root by its relative path, with the values that any write to it changes."""
    for path, found in regular_files(str(root)):
        name = os.path.relpath(path, root)
        if isinstance(found, OSError):
            yield name, None
        else:
            yield name, (found.st_size, found.st_mode, found.st_mtime_ns, found.st_ctime_ns)


if __name__ == "__main__":
    main()
