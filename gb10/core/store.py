"""The store: content-addressed results and downloads; written aside, then renamed; locked per entry."""

import fcntl
import hashlib
import os
import re
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from gb10.core.config import store_root
from gb10.errors import UsageError

SHOWN = re.compile(r"[\w./+,-]*", re.ASCII)
"""The words of a command line that another run may read: no URL, no value of an account."""
LONGEST_HOLDER = 300
Waiting = Callable[[str], AbstractContextManager[None]]
"""Gets the holder of a lock; entered while a run waits for it."""


def holder(handle: TextIO) -> str:
    """Who holds a lock, by its file: another step of this command, else the process, since when and its command."""
    handle.seek(0)
    run, _, shown = handle.read(LONGEST_HOLDER).partition("\n")
    if run == _this_run():
        return "another step of this command"
    return " ".join((shown or run).split()) or "another run"


@contextmanager
def signed(handle: TextIO) -> Iterator[None]:
    """While we hold a lock, its file records it."""
    started = time.strftime("%Y-%m-%d %H:%M:%S")
    _rewrite(handle, f"{_this_run()}\nprocess {os.getpid()}, since {started}: {_command(sys.argv)}\n")
    try:
        yield
    finally:
        _rewrite(handle, "")


def _this_run() -> str:
    """What no other process has at the same time, on no machine and in no container that shares the store."""
    return f"{this_place()}-{os.getpid()}"


def this_place() -> str:
    """Eight hex digits for the machine and the container where our process numbers mean something."""
    place = f"{os.uname().nodename} {Path('/proc/self/ns/pid').stat().st_ino}"
    return hashlib.sha256(place.encode()).hexdigest()[:8]


def _rewrite(handle: TextIO, text: str) -> None:
    with suppress(OSError):  # a full disk: the lock is held all the same
        handle.truncate(0)
        handle.write(text)
        handle.flush()


def _command(argv: Sequence[str]) -> str:
    """A command line without what may hold a password: URLs, and all after a ``=``."""
    words = [Path(argv[0]).name, *argv[1:]] if argv else []
    shown = (
        word if SHOWN.fullmatch(word) else f"{word.partition('=')[0]}=…" if word[:1] == "-" else "…" for word in words
    )
    return shlex.join(shown).replace("'", "")


def lock_now(handle: TextIO) -> bool:
    """Take a lock if it is free now."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_current(handle: TextIO) -> bool:
    """Whether the file of a lock that we took is still the one of that name: `cache gc` removes unused ones."""
    try:
        return os.path.samestat(os.fstat(handle.fileno()), Path(handle.name).stat())
    except FileNotFoundError:
        return False


SCRATCH = re.compile(r".+-(\d+)-([0-9a-f]{8})[0-9a-f]{8}")
FOREIGN_AGE = 7 * 86400  # seconds after which scratch of another machine or container counts as left behind
SEAL = "sha256"
CACHEDIR_TAG = "Signature: 8a477f597d28d172789f06886806bc55\n# gb10's store: safe to delete, costs a rebuild.\n"


@dataclass(frozen=True, slots=True)
class Store:
    """One directory; every entry is ``<section>/<key>``, either whole or absent.

    Who replaces entries holds their lock, and so does who reads one that another run may replace: for the moment
    between two renames it is absent.
    """

    root: Path

    def entry(self, section: str, key: str) -> Path:
        """Where an entry lies, present or not."""
        return self.root / section / key

    def scratch(self, name: str) -> Path:
        """A fresh directory on the store's file system, for work that ends in a rename."""
        path = self._aside(name)
        path.mkdir(parents=True)
        return path

    @contextmanager
    def folder(self, name: str) -> Iterator[Path]:
        """A fresh directory that this user alone may read, gone afterwards."""
        path = self.scratch(name)
        path.chmod(0o700)
        try:
            yield path
        finally:
            shutil.rmtree(path)

    def _aside(self, name: str) -> Path:
        return self.root / "tmp" / f"{name}-{os.getpid()}-{this_place()}{os.urandom(4).hex()}"

    def ensure(self, section: str, key: str, make: Callable[[Path], None]) -> Path:
        """The entry; if absent, ``make`` fills a directory aside that is renamed when it is whole."""
        final = self.entry(section, key)
        if final.exists():
            return final
        with self.locked(f"{section}-{key}"):
            if not final.exists():
                self.replace(final, make)
        return final

    def replace(self, final: Path, make: Callable[[Path], None]) -> None:
        """Make an entry anew, whatever lies there; the old one stays until the new one is whole. Hold its lock."""
        work, old = self.scratch(final.name[:40]), self._aside("old")
        try:
            make(work)
            final.parent.mkdir(parents=True, exist_ok=True)
            if final.exists():
                final.rename(old)
            work.rename(final)
            shutil.rmtree(old, ignore_errors=True)
        finally:
            shutil.rmtree(work, ignore_errors=True)

    def write_bytes(self, path: Path, content: bytes) -> None:
        """Write a file of an entry aside and rename it: a reader sees the old file or the new one, never a half."""
        aside = self._aside(path.name)
        aside.parent.mkdir(parents=True, exist_ok=True)
        aside.touch(mode=0o644)  # no other user may write it, whatever the umask: see files.read_state_file
        aside.write_bytes(content)
        path.parent.mkdir(parents=True, exist_ok=True)
        aside.replace(path)

    def write_text(self, path: Path, text: str) -> None:
        """The same for a text."""
        self.write_bytes(path, text.encode())

    @contextmanager
    def locked(self, name: str, waiting: Waiting = lambda _: nullcontext()) -> Iterator[None]:
        """Hold an advisory lock. ``waiting`` gets the holder, and is entered while we wait. Freed by a crash."""
        with self._lock(name) as handle:
            if not lock_now(handle):
                with waiting(holder(handle)):
                    fcntl.flock(handle, fcntl.LOCK_EX)
            current = is_current(handle)
            with signed(handle) if current else self.locked(name, waiting):
                yield

    @contextmanager
    def tried(self, name: str) -> Iterator[bool]:
        """Hold an advisory lock if it is free now; whether it is held."""
        with self._lock(name) as handle:
            free = lock_now(handle) and is_current(handle)
            with signed(handle) if free else nullcontext():
                yield free

    def _lock(self, name: str) -> TextIO:
        path = self.root / "locks" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("a+", encoding="utf-8")

    def discard(self, path: Path) -> None:
        """Remove an entry: gone at once for everybody, its files a moment later. Hold its lock."""
        old = self._aside("old")
        old.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):  # another run was faster
            path.rename(old)
        _remove(old)

    def sweep(self) -> None:
        """Remove the scratch of runs that were killed; what a download left stays, to be resumed."""
        for path in (self.root / "tmp").iterdir():
            found = SCRATCH.fullmatch(path.name)
            if found and _is_left(path, int(found[1]), found[2]):
                _remove(path)

    def probe(self) -> None:
        """Write a file and remove it; raises OSError."""
        path = self._aside("probe")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("", encoding="ascii")
        path.unlink()


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _is_left(path: Path, pid: int, place: str) -> bool:
    try:
        if place != this_place():
            return time.time() - path.stat().st_mtime > FOREIGN_AGE
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except (PermissionError, FileNotFoundError):
        return False
    return False


def open_store(env: Mapping[str, str]) -> Store:
    """GB10_CACHE_DIR, else XDG_CACHE_HOME/gb10, else ~/.cache/gb10; raises UsageError when it is not writable.

    What killed runs left in it is removed.
    """
    store = Store(store_root(env))
    try:
        store.probe()
        tag = store.root / "CACHEDIR.TAG"
        if not tag.exists():
            tag.write_text(CACHEDIR_TAG, encoding="utf-8")
        store.sweep()
    except OSError as error:
        raise UsageError(
            f"cannot write to the store {store.root}: {error.strerror}",
            hint="set GB10_CACHE_DIR to a directory that you may write to, on a disk with room",
        ) from error
    return store


def file_sha256(path: Path) -> str:
    """Hex sha256 of a file's bytes."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def seal(path: Path) -> None:
    """Record a fresh file's sha256 beside it, as the store entry's seal; raises FileExistsError if one exists."""
    found = file_sha256(path)
    with (path.parent / SEAL).open("x", encoding="ascii") as out:  # O_EXCL: follows no link
        out.write(found)


def is_sealed(path: Path) -> bool:
    """Whether a file of a store entry exists and matches its seal; if so, its use is recorded."""
    mark = path.parent / SEAL
    whole = mark.exists() and path.exists() and mark.read_bytes() == file_sha256(path).encode()
    if whole:
        note_use(path)
    return whole


def note_use(path: Path) -> None:
    """Set a file's time of access to now: most file systems do so once a day at best."""
    os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns))
