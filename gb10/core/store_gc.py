"""What the store keeps: its entries with size, age and reason; removing some, re-hashing all."""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from gb10.core.kept_sizes import Count, KeptSizes
from gb10.core.store import SEAL, Store, file_sha256
from gb10.errors import UsageError

SECTIONS: Final = {
    "answers": "answers",
    "bases": "base",
    "checkouts": "checkout",
    "commits": "commit",
    "diffs": "diff",
    "downloads": "download",
    "explain": "explain",
    "kept": "kept",
    "placed": "placed",
    "nearest": "nearest",
    "programs": "program",
    "proofs": "image",
    "resolved": "resolved",
    "rootfss": "rootfs",
    "scans": "image",
    "trees": "tree",
    "urls": "url",
    "verdicts": "verdict",
    "wheels": "wheel",
}
"""The sections whose entries can be made or fetched again, and the word that begins the name of an entry's lock.
``image`` is the lock itself: a build holds it from its first step to its last."""
LOOSE: Final = ("builds", "built", "environments", "locks", "logs", "plans", "rates", "receipts", "tmp")
"""The sections of small or unfinished files, collected by age: of ``environments`` only what was never finished, of
``tmp`` only what a download left."""
KEPT: Final = "kept"
"""The section of notes, by sha256, of downloads that no other place may have any more: neither is ever chosen to go."""
BUILDS: Final = "image"
ALSO: Final = {"scans": ("image-scan",)}
"""Further locks under which entries of a section are made: `verify` scans an image that no build here made."""
IN_USE: Final = 3600.0
"""Seconds: what was read or written so lately may be part of a build that runs now."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One entry: ``size`` in bytes on disk, ``used`` the last time (Unix) at which a file of it was read or written."""

    section: str
    key: str
    path: Path
    size: int
    used: float
    why: str
    lasting: bool = False
    """Whether it cannot be made or fetched again."""

    @property
    def what(self) -> str:
        """Its largest file, by name."""
        sizes = [(stat.st_size, name) for name, stat in _stats(self.path) if Path(name).name != SEAL]
        return Path(max(sizes)[1]).name if sizes else self.key


def entries(store: Store, reasons: Mapping[tuple[str, str], str], sizes: KeptSizes | None = None) -> tuple[Entry, ...]:
    """Every entry as they would go: what ``reasons`` (by section and key) does not name first, then by last use.

    With ``sizes`` a large entry is counted once; what removes entries does without.
    """
    found = [_entry(path, reasons, sizes) for section in SECTIONS for path in _folders(store.root / section)]
    found += [_entry(path, reasons, None) for section in LOOSE for path in _loose(store.root / section)]
    return tuple(sorted(found, key=lambda entry: (bool(entry.why), entry.used)))


def choose(found: tuple[Entry, ...], total: int, *, keep: int | None, age: float | None, now: float) -> list[Entry]:
    """What goes: all that is unused for ``age`` seconds, then in its order until ``total`` bytes are ``keep``."""
    chosen, younger = list[Entry](), list[Entry]()
    for entry in found:
        if entry.lasting:
            continue
        unused = now - entry.used
        if unused >= IN_USE:
            (chosen if age is not None and unused > age else younger).append(entry)
    total -= sum(entry.size for entry in chosen)
    for entry in younger:
        if keep is None or total <= keep:
            break
        chosen.append(entry)
        total -= entry.size
    return chosen


def check_clock(store: Store, found: Iterable[Entry], now: float) -> None:
    """Raise UsageError when a build runs and nothing was used for a day: by such a clock all of it looks unused."""
    days = (now - max((entry.used for entry in found), default=0.0)) / 86_400
    with store.tried(BUILDS) as free:
        if not free and days > 1:
            raise UsageError(
                f"a build runs, but the entry used last is {days:.0f} days old: the clock seems wrong",
                where=time.strftime("now: %Y-%m-%d %H:%M:%S", time.localtime(now)),
                hint="set the clock, or wait until the build ends",
            )


def drop(store: Store, entry: Entry, still: Callable[[Entry], bool] = lambda entry: True) -> bool:
    """Remove an entry, whole, if ``still`` is true once its lock is held; False when it stays."""
    with ExitStack() as held:
        free = all(held.enter_context(store.tried(name)) for name in (_lock_of(entry), *ALSO.get(entry.section, ())))
        gone = free and still(entry)
        if gone:
            store.discard(entry.path)
    return gone


def _lock_of(entry: Entry) -> str:
    """The lock under which an entry is made; a log, a receipt or a mark has one for this purpose alone."""
    match entry.section:
        case "locks":
            return entry.key
        case "tmp":
            return f"download-{entry.key.partition('.')[0]}"
        case "environments":
            return f"environment-{entry.key.partition('.')[0]}"
        case section if section in LOOSE:
            return section
    word = SECTIONS[entry.section]
    return word if word == BUILDS else f"{word}-{entry.key}"


def _loose(folder: Path) -> Iterator[Path]:
    """The entries of a loose section: files or folders, never a link."""
    with suppress(FileNotFoundError):
        for path in sorted(folder.iterdir()):
            unfinished = folder.name != "environments" or not (path / "complete").exists()
            if not path.is_symlink() and unfinished and (folder.name != "tmp" or path.suffix == ".part"):
                yield path


def idle(entry: Entry) -> bool:
    """Whether an entry is unused now: another run may use it since it was listed."""
    return time.time() - last_used(entry.path) >= IN_USE


def last_used(path: Path) -> float:
    """The last time (Unix) at which a file below a path was read or written; 0 when there is none."""
    return count(path)[2]


def damaged(entry: Entry) -> bool | None:
    """Whether an entry differs from its name or its seal; None for one that has neither. Does not count as use."""
    mark = entry.path / SEAL
    files = [Path(name) for name, _ in _stats(entry.path) if Path(name).name != SEAL]
    if not files or (entry.section != "downloads" and not mark.exists()):
        return None
    try:
        found = {_hash(path).encode() for path in files}
        return found != {entry.key.encode()} if entry.section == "downloads" else mark.read_bytes() not in found
    except FileNotFoundError:  # removed, or made anew, meanwhile
        return None


def disk(path: Path) -> int:
    """Bytes on disk below a path, each hard link once."""
    return count(path)[1]


def count(path: Path) -> Count:
    """The files below a path, their bytes on disk, each hard link once, and the last use of one of them."""
    number, sizes, used = 0, dict[tuple[int, int], int](), 0.0
    for _, stat in _stats(path):
        number += 1
        sizes[stat.st_dev, stat.st_ino] = stat.st_blocks * 512
        used = max(used, stat.st_atime, stat.st_mtime)
    return number, sum(sizes.values()), used


def _entry(path: Path, reasons: Mapping[tuple[str, str], str], sizes: KeptSizes | None) -> Entry:
    section, key = path.parent.name, path.name
    _, size, used = sizes.count(path, path, partial(count, path)) if sizes else count(path)
    lasting = section in (KEPT, "downloads") and (path.parent.parent / KEPT / key).is_dir()
    return Entry(
        section=section,
        key=key,
        path=path,
        size=size,
        used=min(used, time.time()),
        why=reasons.get((section, key), "its index may forget it" if lasting else ""),
        lasting=lasting,
    )


def _hash(path: Path) -> str:
    """A file's sha256; its times stay what they were."""
    stat = path.stat()
    found = file_sha256(path)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    return found


def _folders(section: Path) -> Iterator[Path]:
    yield from (path for path in (section.iterdir() if section.is_dir() else ()) if path.is_dir())


def _stats(path: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Every file below a path that is there now; an engine has hundreds of thousands, and removes some meanwhile."""
    try:
        stat = path.lstat()
    except FileNotFoundError:
        return
    if path.is_file():
        yield str(path), stat
        return
    folders = [str(path)]
    while folders:
        try:
            found = os.scandir(folders.pop())
        except OSError:  # removed meanwhile, or another user's
            continue
        with found:
            for one in found:
                if not one.is_dir():
                    with suppress(FileNotFoundError):
                        yield one.path, one.stat(follow_symlinks=False)
                elif not one.is_symlink():
                    folders.append(one.path)
