"""What the store keeps: its entries with size, age and reason; removing some, re-hashing all."""

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gb10.store import SEAL, Store, file_sha256

ROOMS: Final = {
    "downloads": "download",
    "programs": "program",
    "proofs": "",
    "rootfss": "rootfs",
    "scans": "",
    "trees": "trees",
    "wheels": "wheel",
}
"""The rooms whose entries can be made or fetched again, and the word that begins the name of an entry's lock."""
IN_USE: Final = 3600.0
"""Seconds: what was read or written so lately may be part of a build that runs now."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One entry: ``size`` in bytes on disk, ``used`` the last time (Unix) at which a file of it was read or written."""

    room: str
    key: str
    path: Path
    size: int
    used: float
    why: str

    @property
    def what(self) -> str:
        """Its largest file, by name."""
        return max(_content(self.path), key=lambda path: path.lstat().st_size, default=self.path).name


def entries(store: Store, reasons: Mapping[tuple[str, str], str]) -> tuple[Entry, ...]:
    """Every entry as they would go: what ``reasons`` (by room and key) does not name first, then by last use."""
    found = [_entry(path, reasons) for room in ROOMS for path in _folders(store.root / room)]
    return tuple(sorted(found, key=lambda entry: (bool(entry.why), entry.used)))


def choose(found: tuple[Entry, ...], total: int, *, keep: int | None, age: float | None, now: float) -> list[Entry]:
    """What goes: all that is unused for ``age`` seconds, then in its order until ``total`` bytes are ``keep``."""
    idle = [entry for entry in found if now - entry.used >= IN_USE]
    chosen = [entry for entry in idle if age is not None and now - entry.used > age]
    total -= sum(entry.size for entry in chosen)
    for entry in idle:
        if keep is not None and total > keep and entry not in chosen:
            chosen.append(entry)
            total -= entry.size
    return chosen


def drop(store: Store, entry: Entry) -> bool:
    """Remove an entry, whole; False when another run has its lock."""
    word = ROOMS[entry.room]
    with store.tried(f"{word}-{entry.key}" if word else f"{entry.room}-{entry.key}") as free:
        if free:
            store.discard(entry.path)
    return free


def damaged(entry: Entry) -> bool | None:
    """Whether an entry is not what its name or its seal says; None for one that has neither. Is no use of it."""
    mark = entry.path / SEAL
    if entry.room != "downloads" and not mark.exists():
        return None
    found = [_hash(path) for path in _content(entry.path)]
    return found != [entry.key] if entry.room == "downloads" else mark.read_text(encoding="ascii") not in found


def disk(path: Path) -> int:
    """Bytes on disk below a path, each hard link once."""
    seen = {(stat.st_dev, stat.st_ino): stat.st_blocks * 512 for stat in map(os.lstat, _names(path))}
    return sum(seen.values())


def _entry(path: Path, reasons: Mapping[tuple[str, str], str]) -> Entry:
    room, key = path.parent.name, path.name
    stats = [os.lstat(file) for file in _files(path)] or [path.lstat()]
    used = max(max(stat.st_atime, stat.st_mtime) for stat in stats)
    return Entry(room=room, key=key, path=path, size=disk(path), used=min(used, time.time()),
                 why=reasons.get((room, key), ""))  # fmt: skip


def _hash(path: Path) -> str:
    """A file's sha256; its times stay what they were."""
    stat = path.stat()
    found = file_sha256(path)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    return found


def _content(path: Path) -> list[Path]:
    """An entry's files but for its seal."""
    return [file for file in _files(path) if file.name != SEAL]


def _folders(room: Path) -> Iterator[Path]:
    yield from (path for path in (room.iterdir() if room.is_dir() else ()) if path.is_dir())


def _files(path: Path) -> Iterator[Path]:
    yield from map(Path, _names(path))


def _names(path: Path) -> Iterator[str]:
    """Every file below a path; an engine has hundreds of thousands."""
    for folder, _, files in os.walk(path):
        yield from (f"{folder}/{name}" for name in files)
