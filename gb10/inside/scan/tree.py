"""Every entry below a folder, without recursion and without following a link."""

import os
import stat
from collections.abc import Iterator

Found = os.stat_result | OSError


def entries_below(root: str) -> Iterator[tuple[str, Found]]:
    """Files, links, folders and all else below a folder; a folder that cannot be read, with the error."""
    folders = [root]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(folder) as listed:
                for entry in listed:
                    found = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(found.st_mode):
                        folders.append(entry.path)
                    yield entry.path, found
        except OSError as error:
            yield folder, error


def is_regular(found: Found) -> bool:
    """Whether an entry is a file that can be read, and no link."""
    return isinstance(found, os.stat_result) and stat.S_ISREG(found.st_mode)


def is_link(found: Found) -> bool:
    """Whether an entry is a link."""
    return isinstance(found, os.stat_result) and stat.S_ISLNK(found.st_mode)
