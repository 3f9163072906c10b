"""Makes stdout and stderr safe: a closed stream or an odd character neither stops a run nor loses a result."""

import fcntl
import io
import os
import sys

from gb10.errors import UsageError


def ready_streams() -> None:
    """Make both streams print any character; raises UsageError when stdout is closed.

    A name that is not UTF-8 is printed with escapes. With stderr closed, its lines must not land in stdout.
    """
    if sys.stdin is None:
        os.open(os.devnull, os.O_RDONLY)  # else the next file that gb10 opens gets descriptor 0
    closed = not _takes_writes(1)
    if closed:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.stdout = io.StringIO()
    if not _takes_writes(2):
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - it stays open
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if closed:
        raise UsageError("stdout is closed: the result has no place to go", hint="to discard it: >/dev/null")


def _takes_writes(descriptor: int) -> bool:
    """False also when a wrapper of python3, such as pyenv's, reads its own script on a descriptor that was closed."""
    try:
        return fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
    except OSError:
        return False


def drop_stdout() -> None:
    """Discard what stdout still buffers: its reader is gone, or its disk is full."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
