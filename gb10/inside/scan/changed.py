"""Inside a build stage: scan what one RUN changed, from the root before it and the root after it.

    changed.py BEFORE AFTER [--symbols FILE] > scan.json

Both roots are mounts of the same snapshots. A file that nobody changed has the same size, times and mode in both, down
to the nanosecond of its last change, which no program can set; only other files are read. Every path that the root
before it had otherwise, or that is gone, is listed.
"""

import argparse
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

from gb10.inside.scan.scan import Scanner
from gb10.inside.scan.tree import Found, entries_below

Identity = tuple[int, ...] | str


def main() -> None:
    """``changed.py BEFORE AFTER``: the document on stdout."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--symbols", type=Path)
    options = parser.parse_args()
    scanner, gone = changes(options.before, options.after)
    if options.symbols:
        scanner.symbols.write(options.symbols)
    sys.stdout.write(scanner.scanned(gone).to_json() + "\n")


def changes(before: Path, after: Path) -> tuple[Scanner, tuple[str, ...]]:
    """A scanner that has read what is new or changed, and the old paths that changed or are gone."""
    old = {name: identity(before / name, found) for name, found in entries(before)}
    scanner, same = Scanner(after, "change"), set[str]()
    for name, found in entries(after):
        if name in old and old[name] == identity(after / name, found):
            same.add(name)
        else:
            scanner.take(name, found)
    gone = tuple(sorted(old.keys() - same))
    scanner.symbols.gone = gone
    return scanner, gone


def entries(root: Path) -> Iterator[tuple[str, Found]]:
    """Every entry below a root by its relative path."""
    for path, found in entries_below(str(root)):
        yield os.path.relpath(path, root), found


def identity(path: Path, found: Found) -> Identity:
    """The values that any write to a file changes; the target of a link, the mode of a folder."""
    if isinstance(found, OSError):
        return ()
    if stat.S_ISLNK(found.st_mode):
        return str(path.readlink())
    if stat.S_ISREG(found.st_mode):
        return found.st_size, found.st_mode, found.st_mtime_ns, found.st_ctime_ns
    return (found.st_mode,)


if __name__ == "__main__":
    main()
