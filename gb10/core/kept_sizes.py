"""Sizes of large folders that never change: counted once, kept in the store."""

import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gb10.core.store import Store

FILE: Final = "sizes.json"
LARGEST: Final = 1 << 20
LARGE: Final = 256
"""Files of a folder that is worth a note: to count them takes longer than to read it."""
Count = tuple[int, int, float]
"""Files, bytes on disk, and the last time (Unix) at which one of them was read or written."""


@dataclass(slots=True)
class KeptSizes:
    """What is known of folders by their paths below the store, each with its mark; ``save`` keeps what was asked for.

    A mark is the inode and the time of change of a path: it differs when the folder is made anew.
    """

    store: Store
    _known: dict[str, list[float]] = field(default_factory=dict)
    _asked: dict[str, list[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Read what is kept. A damaged file is made anew."""
        with suppress(OSError, ValueError, RecursionError), (self.store.root / FILE).open("rb") as kept:
            found = json.loads(kept.read(LARGEST))
            self._known = found if isinstance(found, dict) else {}

    def count(self, folder: Path, mark: Path, now: Callable[[], Count]) -> Count:
        """Files, bytes and last use of a folder that changes no more while ``mark`` is the same.

        Uses are noted by the times of files that lie in the folder itself: those are read every time.
        """
        try:
            stat = mark.lstat()
        except OSError:  # removed meanwhile
            return now()
        name, key = str(folder.relative_to(self.store.root)), [stat.st_ino, stat.st_ctime_ns]
        match self._known.get(name):
            case [*same, int(files), int(size), int() | float() as used] if same == key:
                found = (files, size, max(float(used), _last_use(folder)))
            case _:
                found = now()
        if found[0] >= LARGE:
            self._asked[name] = [*key, *found]
        return found

    def save(self) -> None:
        """Keep what was asked for, if that is something else than before. A full disk only costs the next call time."""
        if self._asked != self._known:
            with suppress(OSError):
                self.store.write_text(self.store.root / FILE, json.dumps(self._asked))


def _last_use(folder: Path) -> float:
    """The last time at which a file was read or written that lies in the folder itself."""
    last = 0.0
    with suppress(OSError), os.scandir(folder) as found:
        for one in found:
            if one.is_file(follow_symlinks=False):
                stat = one.stat(follow_symlinks=False)
                last = max(last, stat.st_atime, stat.st_mtime)
    return last
