"""The files of advisory locks: taken, and signed by the run that holds them."""

import fcntl
import hashlib
import os
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TextIO

SHOWN = re.compile(r"[\w./+,-]*", re.ASCII)
"""The words of a command line that another run may read: no URL, no value of an account."""
LONGEST_HOLDER = 300
Waiting = Callable[[str], AbstractContextManager[None]]
"""Gets the holder of a lock; entered while a run waits for it."""


def silently(_: str) -> AbstractContextManager[None]:
    """Wait without a word."""
    return nullcontext()


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
