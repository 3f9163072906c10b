"""The store: content-addressed results and downloads; written aside, then renamed; locked per entry."""

import fcntl
import hashlib
import os
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gb10.errors import UsageError

CACHEDIR_TAG = "Signature: 8a477f597d28d172789f06886806bc55\n# gb10's store: safe to delete, costs a rebuild.\n"


@dataclass(frozen=True, slots=True)
class Store:
    """One directory; every entry is ``<room>/<key>``, either whole or absent."""

    root: Path

    def entry(self, room: str, key: str) -> Path:
        """Where an entry lies, present or not."""
        return self.root / room / key

    def scratch(self, name: str) -> Path:
        """A fresh directory on the store's file system, for work that ends in a rename."""
        path = self.root / "tmp" / f"{name}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        path.mkdir(parents=True)
        return path

    def ensure(self, room: str, key: str, make: Callable[[Path], None]) -> Path:
        """The entry; if absent, ``make`` fills a directory aside that is renamed when it is whole."""
        final = self.entry(room, key)
        if final.exists():
            return final
        with self.locked(f"{room}-{key}"):
            if not final.exists():
                self.replace(final, make)
        return final

    def replace(self, final: Path, make: Callable[[Path], None]) -> None:
        """Make an entry anew, whatever lies there; the old one stays until the new one is whole."""
        work = self.scratch(final.name[:40])
        try:
            make(work)
            final.parent.mkdir(parents=True, exist_ok=True)
            if final.exists():
                final.rename(self.scratch("old") / final.name)
            work.rename(final)
        finally:
            shutil.rmtree(work, ignore_errors=True)

    @contextmanager
    def locked(self, name: str, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Hold an advisory lock; calls ``waiting`` once when another process holds it. Freed by a crash."""
        path = self.root / "locks" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                waiting()
                fcntl.flock(handle, fcntl.LOCK_EX)
            yield


def open_store(env: Mapping[str, str]) -> Store:
    """GB10_CACHE_DIR, else XDG_CACHE_HOME/gb10, else ~/.cache/gb10; raises UsageError when it is not writable."""
    root = store_root(env)
    try:
        root.mkdir(parents=True, exist_ok=True)
        tag = root / "CACHEDIR.TAG"
        if not tag.exists():
            tag.write_text(CACHEDIR_TAG, encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"cannot write to the store {root}: {error.strerror}",
            hint="set GB10_CACHE_DIR to a directory on a disk with room",
        ) from error
    return Store(root)


def store_root(env: Mapping[str, str]) -> Path:
    """Where the store lies, without touching it."""
    if env.get("GB10_CACHE_DIR"):
        return Path(env["GB10_CACHE_DIR"]).absolute()
    if env.get("XDG_CACHE_HOME"):
        return Path(env["XDG_CACHE_HOME"]) / "gb10"
    try:
        return Path(env["HOME"] if env.get("HOME") else Path.home()) / ".cache" / "gb10"
    except RuntimeError as error:
        raise UsageError("no home directory", hint="set GB10_CACHE_DIR to a directory on a disk with room") from error


def file_sha256(path: Path) -> str:
    """Hex sha256 of a file's bytes."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
